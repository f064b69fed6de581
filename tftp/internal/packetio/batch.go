package packetio

import (
	"errors"
	"net/netip"
	"os"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

const (
	// MaxDatagrams is how many bytes of UDP payload one message carries: what
	// an IPv4 packet has room for, which segmentation does not stretch.
	MaxDatagrams = 65507

	// maxReply is the room a reply needs: a request, the longest packet that is
	// not data.
	maxReply = transfer.MaxRequest + transfer.HeaderSize
)

// A Batch gathers the datagrams of one turn of a loop, and sends them in
// one call. All its memory is allocated at the start.
type Batch struct {
	conn  sender
	msgs  []udp.Message
	arena []byte   // what the messages hold, one behind the other
	used  int      // bytes of the arena taken
	gaps  [][]byte // where the blocks of one run go: between headers

	Counts Counts
	Err    error // why the kernel would not take a message, the latest
}

// A sender is what a Batch needs of a socket.
type sender interface {
	Write(ms []udp.Message) (int, error)
	Limits() udp.Limits
}

// Counts are what a Batch has sent, and its owner has not counted yet.
type Counts struct {
	Packets, Bytes int64
	Unsent         int64 // datagrams that the kernel would not take
}

// NewBatch returns a batch of the given number of messages, and of the
// given number of bytes behind the room for a reply.
func NewBatch(conn sender, messages, bytes int) *Batch {
	return &Batch{
		conn:  conn,
		msgs:  make([]udp.Message, 0, messages),
		arena: make([]byte, maxReply+bytes),
		gaps:  make([][]byte, 0, 128),
	}
}

// reserve returns n free bytes of the arena, after making room if need be.
func (batch *Batch) reserve(n int) []byte {
	if len(batch.msgs) == cap(batch.msgs) || batch.used+n > len(batch.arena) {
		batch.Flush()
	}
	return batch.arena[batch.used : batch.used+n]
}

// add makes a message of the first n bytes that reserve gave.
func (batch *Batch) add(peer netip.AddrPort, local netip.Addr, n, segment int) {
	batch.msgs = append(batch.msgs, udp.Message{
		Peer:    peer,
		Local:   local,
		Data:    batch.arena[batch.used : batch.used+n : batch.used+n],
		Segment: segment,
	})
	batch.used += n
	datagrams := 1
	if segment > 0 {
		datagrams = (n + segment - 1) / segment
	}
	batch.Counts.Packets += int64(datagrams)
	batch.Counts.Bytes += int64(n)
}

// A Machine is a Sender or a Receiver.
type Machine interface {
	Done() (bool, error)
	Deadline() time.Time
	AppendReply(now time.Time, b []byte) []byte
}

// AddReply adds the packet that a machine owes besides data, if any.
func (batch *Batch) AddReply(now time.Time, peer netip.AddrPort, local netip.Addr, m Machine) {
	if b := m.AppendReply(now, batch.reserve(maxReply)[:0]); len(b) > 0 {
		batch.add(peer, local, len(b), 0)
	}
}

// AddError adds an ERROR packet.
func (batch *Batch) AddError(peer netip.AddrPort, local netip.Addr, code transfer.ErrorCode, msg string) {
	b := transfer.AppendError(batch.reserve(maxReply)[:0], code, msg)
	batch.add(peer, local, len(b), 0)
}

// AddData adds one message with the first blocks of a run, as many as fit, and
// reports their number to the Sender. The file's bytes are read straight to
// their places between the headers. It returns false when the run is not
// sent: err says why the file could not be read, nil that it had too few bytes.
func (batch *Batch) AddData(now time.Time, peer netip.AddrPort, local netip.Addr, s *transfer.Sender, run transfer.Run, file store.TryReader) (ok bool, err error) {
	block := s.BlockSize()
	stride := transfer.HeaderSize + block
	blocks := min(run.Blocks, batch.conn.Limits().Segments, max(1, min(MaxDatagrams, len(batch.arena))/stride), cap(batch.gaps))
	bytes := int(min(run.Bytes, int64(blocks)*int64(block)))

	b := batch.reserve(blocks*transfer.HeaderSize + bytes)
	roll := s.Agreed().Rollover
	batch.gaps = batch.gaps[:0]
	for i, left := 0, bytes; i < blocks; i++ {
		transfer.AppendHeader(b[i*stride:i*stride], run.Block+int64(i), roll)
		at, n := i*stride+transfer.HeaderSize, min(left, block)
		if n > 0 {
			batch.gaps = append(batch.gaps, b[at:at+n:at+n])
		}
		left -= n
	}
	if bytes > 0 {
		n, err := file.TryReadAt(batch.gaps, run.Offset)
		if n < bytes {
			// Whole blocks that did come are worth sending.
			if blocks = n / block; blocks == 0 {
				return false, err
			}
			b = b[:blocks*stride]
		}
	}
	segment := 0
	if blocks > 1 {
		segment = stride
	}
	batch.add(peer, local, len(b), segment)
	s.Sent(now, blocks)
	return true, nil
}

// IsEmpty reports whether nothing has gathered.
func (batch *Batch) IsEmpty() bool { return len(batch.msgs) == 0 }

// Flush sends what has gathered. Datagrams that the kernel refuses are lost, as
// on any network; the machines' timers make up for it.
func (batch *Batch) Flush() {
	ms := batch.msgs
	for len(ms) > 0 {
		n, err := batch.conn.Write(ms)
		if err == nil {
			break
		}
		batch.Err = err
		ms = ms[n:]
		if errors.Is(err, os.ErrDeadlineExceeded) || len(ms) == 0 {
			batch.Counts.Unsent += int64(len(ms)) // the kernel's buffer stays full: give way
			break
		}
		batch.Counts.Unsent++
		ms = ms[1:]
	}
	batch.msgs, batch.used = batch.msgs[:0], 0
}

// A RateLimit allows a number of events in each second.
type RateLimit struct {
	second int64
	used   int
}

// Allow counts an event, and reports whether this second has had no more than most.
func (r *RateLimit) Allow(now time.Time, most int) bool {
	if second := now.Unix(); second != r.second {
		r.second, r.used = second, 0
	}
	r.used++
	return r.used <= most
}
