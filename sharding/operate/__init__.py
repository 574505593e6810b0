"""What an operator asks for: who is there, who serves what, what to move, and to move it.

    operator   `NodeOperator` answers for this node alone, `ClusterOperator` for all nodes
    plan       as few moves as bring all nodes into balance; where to cut a queue's history

Enters: the verbs of jjq.v1.Operator. Leaves: calls of `Ownership`, here or at the node that owns the queue.

Invariants. No state of an operation is kept anywhere: each step is one compare-and-swap that has happened or has not.
So after any failure an operator asks for a plan again. A plan moves little more than any plan must.
"""
