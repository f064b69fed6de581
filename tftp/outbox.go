package tftp

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
	// maxDatagrams is how many bytes of UDP payload one message carries: what
	// an IPv4 packet has room for, which segmentation does not stretch.
	maxDatagrams = 65507

	// maxReply is the room a reply needs: a request, the longest packet that is
	// not data.
	maxReply = transfer.MaxRequest + transfer.HeaderSize
)

// An outbox gathers the datagrams of one turn of a loop, and sends them in
// one call. All its memory is allocated at the start.
type outbox struct {
	conn  socket
	msgs  []udp.Message
	arena []byte   // what the messages hold, one behind the other
	used  int      // bytes of the arena taken
	gaps  [][]byte // where the blocks of one run go: between headers

	count *shardCounters
	err   error // why the kernel would not take a message, the latest
}

// newOutbox returns an outbox of the given number of messages, and of the
// given number of bytes behind the room for a reply.
func newOutbox(conn socket, messages, bytes int, count *shardCounters) *outbox {
	return &outbox{
		conn:  conn,
		count: count,
		msgs:  make([]udp.Message, 0, messages),
		arena: make([]byte, maxReply+bytes),
		gaps:  make([][]byte, 0, 128),
	}
}

// reserve returns n free bytes of the arena, after making room if need be.
func (o *outbox) reserve(n int) []byte {
	if len(o.msgs) == cap(o.msgs) || o.used+n > len(o.arena) {
		o.flush()
	}
	return o.arena[o.used : o.used+n]
}

// add makes a message of the first n bytes that reserve gave.
func (o *outbox) add(peer netip.AddrPort, local netip.Addr, n, segment int) {
	o.msgs = append(o.msgs, udp.Message{
		Peer:    peer,
		Local:   local,
		Data:    o.arena[o.used : o.used+n : o.used+n],
		Segment: segment,
	})
	o.used += n
	datagrams := 1
	if segment > 0 {
		datagrams = (n + segment - 1) / segment
	}
	o.count.sent(datagrams, n)
}

// A machine is a Sender or a Receiver, as far as replies are concerned.
type machine interface {
	AppendReply(now time.Time, b []byte) []byte
}

// reply adds the packet that a machine owes besides data, if any.
func (o *outbox) reply(now time.Time, peer netip.AddrPort, local netip.Addr, m machine) {
	if b := m.AppendReply(now, o.reserve(maxReply)[:0]); len(b) > 0 {
		o.add(peer, local, len(b), 0)
	}
}

// fault adds an ERROR packet.
func (o *outbox) fault(peer netip.AddrPort, local netip.Addr, code transfer.ErrorCode, msg string) {
	b := transfer.AppendError(o.reserve(maxReply)[:0], code, msg)
	o.add(peer, local, len(b), 0)
}

// data adds one message with the first blocks of a run, as many as fit, and
// reports their number to the Sender. The file's bytes are read straight to
// their places between the headers. It returns false when the run is not
// sent: err says why the file could not be read, nil that it had too few bytes.
func (o *outbox) data(now time.Time, peer netip.AddrPort, local netip.Addr, s *transfer.Sender, run transfer.Run, file store.TryReader) (ok bool, err error) {
	block := s.BlockSize()
	stride := transfer.HeaderSize + block
	blocks := min(run.Blocks, o.conn.Limits().Segments, max(1, min(maxDatagrams, len(o.arena))/stride), cap(o.gaps))
	bytes := int(min(run.Bytes, int64(blocks)*int64(block)))

	b := o.reserve(blocks*transfer.HeaderSize + bytes)
	roll := s.Agreed().Rollover
	o.gaps = o.gaps[:0]
	for i, left := 0, bytes; i < blocks; i++ {
		transfer.AppendHeader(b[i*stride:i*stride], run.Block+int64(i), roll)
		at, n := i*stride+transfer.HeaderSize, min(left, block)
		if n > 0 {
			o.gaps = append(o.gaps, b[at:at+n:at+n])
		}
		left -= n
	}
	if bytes > 0 {
		n, err := file.TryReadAt(o.gaps, run.Offset)
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
	o.add(peer, local, len(b), segment)
	s.Sent(now, blocks)
	return true, nil
}

// flush sends what has gathered. Datagrams that the kernel refuses are lost, as
// on any network; the machines' timers make up for it.
func (o *outbox) flush() {
	ms := o.msgs
	for len(ms) > 0 {
		n, err := o.conn.Write(ms)
		if err == nil {
			break
		}
		o.err = err
		ms = ms[n:]
		if errors.Is(err, os.ErrDeadlineExceeded) || len(ms) == 0 {
			o.count.unsent += int64(len(ms)) // the kernel's buffer stays full: give way
			break
		}
		o.count.unsent++
		ms = ms[1:]
	}
	o.msgs, o.used = o.msgs[:0], 0
}
