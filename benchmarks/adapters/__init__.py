"""What a wrapped tool call costs over a plain one, in each framework.

In each round every framework plays the same run twice: a scripted model calls one tool `CALLS` times, once as a plain
tool and once as an action inside a saga on the file store, at the power tier. The difference over the number of calls
is `<framework>_added_ms`; the saga's opening and its commit are in it. `<framework>_added_over_own` is the same over
what the framework itself spends on a call. `langgraph_any_middleware_ms` is what LangChain itself spends on a call
where an agent has any middleware, one that does nothing too. `bare_sync_ms` is the floor of one durable step: one write
and one fdatasync of a record's size on the same disk.
"""
