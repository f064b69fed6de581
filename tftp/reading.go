package tftp

import (
	"errors"
	"io"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/protocol"
	"github.com/haul-project/haul/tftp/transfer"
)

// A reading is a transfer that a read request (RRQ) began: the server sends a file to the peer.
type reading struct {
	session
	sender protocol.Sender
	// shared holds data for the readings of the same file in this shard; nil if the reading does
	// not share.
	shared    *sharedCache
	joined    int64 // number of the shard's turn in which the reading joined `shared`
	fetchCost int64 // bytes of memory taken for the buffer of fetch

	// While a worker does a job for the reading, it owns these fields.
	file     store.File
	reader   io.ReaderAt // what is sent: file, or its translation to netascii
	length   int64       // number of bytes in reader
	try      store.TryReader
	identity store.Identity // identity of file; zero if the file has no identity
	fetch    fileio.FetchBuffer
}

const (
	// Readings read ahead from files whose data is in memory. All readings of a shard share
	// aheadShare bytes for that; each gets its part, but at least minAhead and at most maxAhead
	// bytes.
	minAhead   = 2 << 10
	maxAhead   = 8 << 10
	aheadShare = 8 << 20

	minReads = 4 // a reading reads ahead only if that provides at least this many blocks

	// A run of minParted blocks or more is sent in two parts, if no other session of the loop has
	// anything to send. While the network carries the first part, 1/headStart of the run, the rest
	// is read and cut into packets. For shorter runs, the additional system call costs more than it
	// saves. If the round-trip time is below networkTrip, there is no real network to keep busy.
	minParted   = 16
	headStart   = 8
	networkTrip = 100 * time.Microsecond
)

// spareReadings holds readings of a shard for reuse.
type spareReadings []*reading

// take returns a spare reading, or a new one.
func (p *spareReadings) take() *reading {
	if n := len(*p); n > 0 {
		r := (*p)[n-1]
		*p = (*p)[:n-1]
		return r
	}
	r := &reading{}
	r.side, r.machine = r, &r.sender
	return r
}

// prepare initializes a reading for a request.
func (r *reading) prepare(now time.Time, q Request) {
	r.begin(now, q, sentBucket)
	if m := &r.shard.memory; !m.isScarce() {
		// Take the memory first. The worker that opens the file then also reads it, if the file fits
		// into that memory.
		m.take(&r.fetchCost, int64(r.aheadSize()))
	}
}

// ready reports whether the sender may begin. For a text file, it first submits a scan and returns
// false, because the OACK contains the size that the scan determines.
func (r *reading) ready() bool {
	if r.request.Mode == transfer.Netascii && r.reader == r.file {
		r.submit(fileio.ScanJob)
		return false
	}
	return true
}

func (r *reading) agree(now time.Time) {
	if r.reader != nil { // the file was not read when it was opened
		r.shard.memory.release(&r.fetchCost)
	} else {
		r.shard.memory.lower(&r.fetchCost, r.length)
	}
	agreed := protocol.Agree(r.limits(), r.request.Request, r.length)
	agreed.Window = min(agreed.Window, blocksIn(maxWindowBytes, agreed))
	if agreed.Window <= 1 && r.request.Mode == transfer.Octet && agreed.BlockSize <= maxAhead/minReads && r.length > maxAhead {
		r.join() // a file that is at most maxAhead long is read at once, so there would be nothing to share
	}
	r.sender.Answer(now, agreed, r.length)
	r.hold(now, 0)
	if r.quiet {
		r.sender.Quiet()
	}
	// Until the peer has acknowledged data, the request may be forged and the peer a victim.
	block := int64(r.sender.BlockSize())
	window := min(r.length/block+1, int64(max(1, agreed.Window))) * block
	var known bool
	if r.credit, known = r.shard.server.guard.grant(now, r.peer.Addr(), window); !known {
		r.sender.Cautious(r.credit)
	}
}

func (r *reading) receive(now time.Time, b []byte) {
	r.sender.Handle(now, b)
	r.noteAnswer(now, r.sender.Heard())
	if r.unproven && r.sender.Acked() > 0 {
		r.prove(now, true)
	}
}

func (r *reading) checkTimers(now time.Time) { r.sender.Expire(now) }

func (r *reading) continueAfter(now time.Time, _ fileio.Job) { r.waits.end(now) }

// delivered reports whether the whole file was sent, and only the ACK of the last window is
// missing. Some boot ROMs never send that ACK.
func (r *reading) delivered() bool { return r.state == running && r.sender.Delivered() }

func (r *reading) shrink() {}

func (r *reading) settle(now time.Time, err error) {
	if err == nil {
		r.shard.recent.add(now, r.peer)
	}
}

func (r *reading) recycle() {
	sh := r.shard
	sh.memory.release(&r.fetchCost)
	var fetch fileio.FetchBuffer
	if len(sh.readings) < maxSpare {
		fetch = r.fetch.Spare(fileio.MinFetch)
	}
	r.session = session{shard: sh, side: r, machine: &r.sender, state: ended, scheduled: r.scheduled}
	r.shared, r.joined, r.identity, r.length, r.fetch = nil, 0, store.Identity{}, 0, fetch
	sh.readings = append(sh.readings, r)
}

// size returns the length of the file, or -1 while a worker opens it.
func (r *reading) size() int64 {
	if r.state == opening {
		return -1
	}
	return r.length
}

func (r *reading) moved() int64 { return r.sender.Acked() }

func (r *reading) conclude(t *Transfer) {
	if done, _ := r.sender.Done(); r.state != opening && !done && t.Err == nil {
		t.Unconfirmed = true
	}
}

// hold makes the sender wait, as the rates require after it has sent the given number of bytes.
func (r *reading) hold(now time.Time, sent int64) {
	if r.throttle.limited {
		r.sender.Hold(now.Add(r.throttle.charge(now, int(sent))))
	}
}

// atOnce returns how many blocks of a run may be sent at once: as many as the rates allow in
// turnTime, fewer if many transfers share the rates, but at least one.
func (r *reading) atOnce(run protocol.Run) int {
	n := r.throttle.share(int64(maxHold/turnTime)) / int64(r.sender.BlockSize())
	return int(min(int64(run.Blocks), max(1, n)))
}

// send sends the blocks that are due, until it needs data of the file that is not in memory.
func (r *reading) send(now time.Time) {
	ahead := len(r.shard.scheduled) == 1 && r.sender.Stats().RTT >= networkTrip
	for r.job == fileio.NoJob {
		run := r.sender.Due(now)
		if run.Blocks == 0 {
			return
		}
		early := ahead && run.Blocks >= minParted
		if early {
			run.Blocks, ahead = run.Blocks/headStart, false
		}
		if r.throttle.limited {
			run.Blocks = r.atOnce(run)
		}
		before := r.sender.Stats().Sent
		ok, err := r.shard.out.AddData(now, r.peer, r.local, &r.sender, run, r)
		switch {
		case ok:
			r.hold(now, min(run.Bytes, (r.sender.Stats().Sent-before)*int64(r.sender.BlockSize())))
			if early {
				r.shard.out.Flush()
			}
		case errors.Is(err, store.ErrWouldBlock), errors.Is(err, errors.ErrUnsupported):
			r.park(now, run)
			return
		case err == nil, errors.Is(err, io.EOF):
			r.abort(now, fileio.ErrChanged)
			r.shard.out.AddReply(now, r.peer, r.local, &r.sender)
			return
		default:
			r.abort(now, err)
			r.shard.out.AddReply(now, r.peer, r.local, &r.sender)
			return
		}
	}
}

// park submits a job that fetches the data of a run.
func (r *reading) park(now time.Time, run protocol.Run) {
	memory := &r.shard.memory
	want := r.fetch.Aim(run, r.sender.BlockSize(), memory.available()/fetchShare)
	if !memory.take(&r.fetchCost, int64(want)) {
		r.abort(now, errMemory)
		r.shard.out.AddReply(now, r.peer, r.local, &r.sender)
		return
	}
	r.waits.begin(now)
	r.submit(fileio.FetchJob)
}

// TryReadAt returns fetched bytes if they include off. Otherwise it reads the file, but only what
// is in memory.
func (r *reading) TryReadAt(bufs [][]byte, off int64) (int, error) {
	if n := r.fetch.CopyTo(bufs, off); n > 0 {
		return n, nil
	}
	if r.try == nil {
		return 0, store.ErrWouldBlock
	}
	if len(bufs) == 1 {
		p := bufs[0]
		size := r.aheadSize()
		switch {
		case len(p) > maxAhead/minReads:
		case r.readShared(p, off):
			return len(p), nil
		case len(p) <= size/minReads && r.readAhead(off, size) >= len(p):
			return r.fetch.CopyTo(bufs, off), nil
		}
	}
	return fileio.TryBlocks(r.try, bufs, off)
}

// aheadSize returns how many bytes a reading may currently read ahead. It falls when the shard has
// many transfers.
func (r *reading) aheadSize() int {
	switch {
	case r.shard.busy <= aheadShare/maxAhead:
		return maxAhead
	case r.shard.busy <= aheadShare/maxAhead*2:
		return maxAhead / 2
	}
	return minAhead
}

// readAhead reads at most size bytes of the file from off on, as far as they are in memory, and
// returns how many it has read. It serves the small blocks of lock-step transfers: without it, a
// system call for each block would cost a tenth of all other work.
func (r *reading) readAhead(off int64, size int) int {
	m := &r.shard.memory
	if had := r.fetch.Capacity(); had == maxAhead && size < had {
		r.fetch = fileio.FetchBuffer{} // the shard has more readings now, and they need memory too
		m.release(&r.fetchCost)
	}
	if left := max(r.length-off, minAhead); r.fetch.Capacity() == 0 && left < int64(size) {
		// Many small files must not need a large buffer each, because a new buffer has to be
		// cleared.
		size = int(left)
	}
	if r.fetchCost < int64(size) && (m.isScarce() || !m.take(&r.fetchCost, int64(size))) {
		return 0
	}
	return r.fetch.ReadAhead(r.try, off, size)
}
