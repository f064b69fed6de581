package tftp

import "time"

// end notes the end of a transfer. Its files are closed by a worker.
func (lp *poolLoop) end(now time.Time, x *poolTransfer, err error) {
	x.ended, x.err = true, err
	if x.stop != nil {
		x.stop()
		x.stop = nil
	}
	x.noteResult(now)
	if st := x.result.Stats; st.Resent+st.Duplicates+st.Timeouts > 0 {
		lp.lossy = true
	}
	if err == nil && !x.request.write && lp.lossy && lp.dallying < maxPoolDallying && lp.stopped == nil {
		x.dallying = true
		lp.dallying++
		lp.pool.dally()
		x.socket.dally(now)
		lp.dallied.push(poolTransferUse{x, x.request})
		lp.trimDallied()
	} else {
		lp.detach(now, x)
	}
	if x.job == noJob {
		lp.reportEnd(now, x)
	}
}

// reportEnd reports a transfer that is over, when its files are closed.
func (lp *poolLoop) reportEnd(now time.Time, x *poolTransfer) {
	if x.upload != nil {
		x.submit(closeJob)
		return
	}
	q := x.request
	lp.active--
	if lp.stopped == nil && x.nextAttempt() {
		lp.sockets.enqueueFirst(q)
		lp.recycle(x)
		return
	}
	res, err := x.result, x.err
	if !x.dallying {
		lp.recycle(x)
	} else {
		x.reported = true
	}
	lp.complete(q, res, err)
}

// stopDallying takes back a download that has dallied.
func (lp *poolLoop) stopDallying(x *poolTransfer) {
	if !x.dallying {
		return
	}
	lp.detach(time.Now(), x)
	x.dallying = false
	lp.dallying--
	lp.pool.over()
	if x.reported {
		lp.recycle(x)
	}
}

// stopOldest takes back the download that has dallied longest. It returns false
// if there is none.
func (lp *poolLoop) stopOldest() bool {
	for lp.dallied.len() > 0 {
		r := lp.dallied.pop()
		if r.transfer.dallying && r.transfer.request == r.request {
			lp.stopDallying(r.transfer)
			return true
		}
	}
	return false
}

// trimDallied drops those from the list that dally no more.
func (lp *poolLoop) trimDallied() {
	if lp.dallied.len() <= 2*maxPoolDallying {
		return
	}
	for range lp.dallied.len() {
		if r := lp.dallied.pop(); r.transfer.dallying && r.transfer.request == r.request {
			lp.dallied.push(r)
		}
	}
}

// detach takes a transfer off its socket.
func (lp *poolLoop) detach(now time.Time, x *poolTransfer) {
	lp.timers.remove(x)
	if x.socket != nil {
		x.socket.remove(now, x)
		x.socket = nil
	}
}

func (lp *poolLoop) recycle(x *poolTransfer) {
	x.clear()
	if len(lp.free) < lp.slots {
		lp.free = append(lp.free, x)
	}
}
