"""One module per condition. Each yields a `Verdict`: a reason of the vocabulary and a message that is a pure function of the facts."""
