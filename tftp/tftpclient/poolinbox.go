package tftpclient

// A poolInbox holds what other goroutines pass to a loop.
type poolInbox struct {
	requests  []*poolRequest
	worked    []*poolTransfer // back from a worker
	cancelled []poolTransferUse
}

// A poolTransferUse names one use of a transfer, because transfers are reused.
type poolTransferUse struct {
	transfer *poolTransfer
	request  *poolRequest
}

func (in *poolInbox) empty() bool {
	return len(in.requests)+len(in.worked)+len(in.cancelled) == 0
}

// push passes a request to the loop.
func (lp *poolLoop) push(q *poolRequest) error {
	lp.mu.Lock()
	defer lp.mu.Unlock()
	if lp.refusal != nil {
		return lp.refusal
	}
	lp.load.Add(1)
	lp.inbox.requests = append(lp.inbox.requests, q)
	lp.wake()
	return nil
}

// wake makes the loop look at its inbox. The caller holds mu.
func (lp *poolLoop) wake() {
	if !lp.awake {
		lp.awake = true
		lp.set.Wake()
	}
}

// close makes the loop end all transfers.
func (lp *poolLoop) close() {
	lp.mu.Lock()
	defer lp.mu.Unlock()
	if lp.refusal == nil {
		lp.refusal = ErrPoolClosed
	}
	if !lp.exiting {
		lp.wake()
	}
}

// exit ends the loop. There must be no transfers left.
func (lp *poolLoop) exit() {
	lp.mu.Lock()
	defer lp.mu.Unlock()
	if !lp.exiting {
		lp.exiting = true
		lp.wake()
	}
}

// workDone returns a transfer from a worker to the loop.
func (lp *poolLoop) workDone(x *poolTransfer) {
	lp.mu.Lock()
	defer lp.mu.Unlock()
	lp.inbox.worked = append(lp.inbox.worked, x)
	lp.wake()
}

// cancel makes the loop end a transfer whose context has ended.
func (lp *poolLoop) cancel(x *poolTransfer, q *poolRequest) {
	lp.mu.Lock()
	defer lp.mu.Unlock()
	if lp.exiting {
		return
	}
	lp.inbox.cancelled = append(lp.inbox.cancelled, poolTransferUse{x, q})
	lp.wake()
}
