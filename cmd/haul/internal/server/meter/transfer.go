package meter

import (
	"net/netip"
	"sync/atomic"
	"time"
)

// Info describes a transfer when it begins. Only Live and Config.Ended use Peer, Name and User.
type Info struct {
	Protocol Protocol
	Write    bool           // true if the client sends the file, false if it receives the file
	Peer     netip.AddrPort // the address of the client
	Name     string         // name of the file, as the peer sent it; at most 256 bytes of it are kept
	User     string         // the user who has logged in; "" without a login
	Size     int64          // size of the file, in bytes; 0 if it is not known
	Began    time.Time      // when the transfer began; zero means now
}

// maxName is how many bytes of a file's name are kept. Protocols allow longer names, but those are
// too long to read.
const maxName = 256

// A Transfer counts the progress and the end of one transfer. A nil *Transfer counts nothing.
type Transfer struct {
	registry *Registry
	counts   *directionCounts
	id       uint64
	info     Info
	bytes    atomic.Int64 // bytes moved so far, as set by Add and Reached
	moved    atomic.Pointer[func() int64]
	way      atomic.Pointer[func() Way]

	slot    int   // position in its part of the table, or noSlot if not listed; guarded by part.mu
	counted int64 // bytes that the counter contains already; guarded by part.mu
	ended   bool  // guarded by part.mu
}

// Add counts n more bytes as moved. It ignores n if it is not above 0.
func (t *Transfer) Add(n int64) {
	if t != nil && n > 0 {
		t.bytes.Add(n)
	}
}

// Reached sets how many bytes have been moved since the beginning. The number never decreases. Use
// Add or Reached, whichever fits the protocol's code.
func (t *Transfer) Reached(total int64) {
	if t == nil {
		return
	}
	for {
		old := t.bytes.Load()
		if total <= old || t.bytes.CompareAndSwap(old, total) {
			return
		}
	}
}

// Follow sets the function `moved`, which returns how many bytes have been moved since the
// beginning. It is for protocols that count bytes themselves, in place of Add and Reached. The
// function is called whenever the number is needed, and when the transfer ends. It must not block.
func (t *Transfer) Follow(moved func() int64) {
	if t != nil {
		t.moved.Store(&moved)
	}
}

// A Way holds measurements of the network path to a transfer's peer.
type Way struct {
	RTT    time.Duration // the smoothed round trip; 0 means not measured
	Window int           // the largest number of blocks under way; 0 means that the protocol has no window
	Resent int64         // datagrams sent again
}

// Measure sets the function `way`, which returns measurements of the path to the peer. Live calls
// it to show them, so it must not block.
func (t *Transfer) Measure(way func() Way) {
	if t != nil {
		t.way.Store(&way)
	}
}

// measured returns the measurements of the path to the peer, or zero if Measure was not called.
func (t *Transfer) measured() (w Way) {
	if way := t.way.Load(); way != nil {
		w = (*way)()
	}
	return w
}

// progress returns how many bytes have been moved so far.
func (t *Transfer) progress() int64 {
	if moved := t.moved.Load(); moved != nil {
		t.Reached((*moved)())
	}
	return t.bytes.Load()
}

// End describes a transfer that has ended. Negative numbers count as 0.
type End struct {
	Result Result
	// Bytes is the number of bytes of the file that were moved. It is ignored if it is less than
	// Add and Reached have counted.
	Bytes    int64
	Duration time.Duration // 0 means the time since Began
	RTT      time.Duration // the smoothed round trip; 0 if it was never measured

	// The next fields are only for protocols that use datagrams. The metrics of TFTP are shown from
	// the start, at 0. The metric of Received, which a server need not count, and the metrics of
	// other protocols are shown once they have been above 0.
	Sent       int64 // datagrams sent, including repeated ones
	Received   int64 // datagrams received
	Resent     int64 // datagrams sent again
	Duplicates int64 // datagrams received again
	Timeouts   int64 // how many times the timer of the transfer ran out

	// The next fields are only for Config.Ended.
	File   string // the whole name, as the peer gave it; "" means Info.Name
	Path   string // path of the file on disk; "" if it is not known
	Stored string // the name under which an upload was stored, if it differs from the name that the peer sent
	Err    error  // why the transfer ended; nil if it succeeded
	Detail any    // further data for Config.Ended, from the caller of End

	// Routine says that it is normal for a transfer to end in this way, so nobody needs to look at
	// it. For example, clients often ask for a missing file.
	Routine bool
}

func (e *End) packets() packetCounts {
	return packetCounts{e.Sent, e.Resent, e.Duplicates, e.Timeouts, received: e.Received}
}

// Ended describes a transfer that has ended: how it began, and how it ended.
type Ended struct {
	ID uint64 // consecutive since the start
	Info
	End // File, Bytes and Duration are always set
}

// flush adds the bytes that the counter does not contain yet. The caller holds the part's lock.
func (t *Transfer) flush() {
	if n := t.progress() - t.counted; n > 0 {
		t.counted += n
		t.counts.bytes.Add(float64(n))
	}
}
