"""Rules: how relevance passes through each torch operation.

A table maps a torch function to a rule. A rule takes `(ledger, function, args, kwargs)`, returns
the same value as the function and changes only the backward pass.

- `operations/`: which torch functions there are, and what rules need to know about them;
- `detach/`: rules that detach some factors, so that relevance is gradient x input;
- `relevance/`: rules whose backward pass carries relevance instead of the gradient;
- `attention_maps`: rules that record attention maps and do not change the gradient;
- `ledger`: the relevance that does not reach a token.
"""
