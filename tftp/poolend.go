package tftp

import "time"

// end notes the end of a transfer. Its files are closed by a worker.
func (lp *poolLoop) end(now time.Time, x *poolTransfer, err error) {
	x.ended, x.err = true, err
	if x.stop != nil {
		x.stop()
		x.stop = nil
	}
	x.note(now)
	if st := x.result.Stats; st.Resent+st.Duplicates+st.Timeouts > 0 {
		lp.lossy = true
	}
	if err == nil && !x.request.write && lp.lossy && lp.dallying < maxPoolDallying && lp.ended == nil {
		x.dallying = true
		lp.dallying++
		lp.pool.dally()
		x.socket.dally(now)
		lp.rested.push(poolNamed{x, x.request})
		lp.trimRested()
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
	if lp.ended == nil && x.tryAgain() {
		lp.sockets.enqueueFirst(q)
		lp.recycle(x)
		return
	}
	res, err := x.result, x.err
	if !x.dallying {
		lp.recycle(x)
	} else {
		x.settled = true
	}
	lp.complete(q, res, err)
}

// quit takes back a download that has dallied.
func (lp *poolLoop) quit(x *poolTransfer) {
	if !x.dallying {
		return
	}
	lp.detach(time.Now(), x)
	x.dallying = false
	lp.dallying--
	lp.pool.over()
	if x.settled {
		lp.recycle(x)
	}
}

// quitOldest takes back the download that has dallied longest. It returns false
// if there is none.
func (lp *poolLoop) quitOldest() bool {
	for lp.rested.len() > 0 {
		r := lp.rested.pop()
		if r.transfer.dallying && r.transfer.request == r.request {
			lp.quit(r.transfer)
			return true
		}
	}
	return false
}

// trimRested drops those from the list that dally no more.
func (lp *poolLoop) trimRested() {
	if lp.rested.len() <= 2*maxPoolDallying {
		return
	}
	for range lp.rested.len() {
		if r := lp.rested.pop(); r.transfer.dallying && r.transfer.request == r.request {
			lp.rested.push(r)
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
