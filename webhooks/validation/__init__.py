"""Every rule that judges a ModelDeployment or a scaler, in one registry with stable ids.

Pure: a rule is a function of a Subject and yields what is wrong; look-ups are done before and handed in as values. The webhook,
`mdctl review`, `mdctl lint` and the page of rules walk the same registry. Source: admission facts 3, decisions D5.
"""
