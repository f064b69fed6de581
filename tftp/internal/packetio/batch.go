package packetio

import (
	"errors"
	"net/netip"
	"os"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/protocol"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

const (
	// MaxDatagrams is the largest UDP payload of one message in bytes: as much as fits into an IPv4
	// packet. Segmentation does not allow more.
	MaxDatagrams = 65507

	// maxReply is the largest size of a reply, in bytes. The longest packet other than DATA is a
	// request.
	maxReply = transfer.MaxRequest + transfer.HeaderSize
)

// A Batch collects the datagrams of one turn of a loop, and sends them in one call. All its memory
// is allocated at the start.
type Batch struct {
	conn  sender
	msgs  []udp.Message
	arena []byte   // contents of the messages, one after the other
	used  int      // bytes of the arena in use
	gaps  [][]byte // parts of the arena, between the headers, into which the blocks of one run are read

	Counts Counts
	Err    error // the latest error for a message that the kernel refused
}

// A sender is the part of a socket that a Batch uses.
type sender interface {
	Write(ms []udp.Message) (int, error)
	Limits() udp.Limits
}

// Counts says how much a Batch has sent since its owner last reset the counts. Datagrams are counted
// when they are queued, so Packets and Bytes include those that the kernel later refused.
type Counts struct {
	Packets, Bytes int64
	Unsent         int64 // messages that the kernel refused, each of which may hold several datagrams
}

// NewBatch returns a batch with room for the given number of messages and for the given number of
// bytes, in addition to the room for a reply.
func NewBatch(conn sender, messages, bytes int) *Batch {
	return &Batch{
		conn:  conn,
		msgs:  make([]udp.Message, 0, messages),
		arena: make([]byte, maxReply+bytes),
		gaps:  make([][]byte, 0, 128),
	}
}

// reserve returns n free bytes of the arena. If necessary, it sends the batch first to make room.
func (batch *Batch) reserve(n int) []byte {
	if len(batch.msgs) == cap(batch.msgs) || batch.used+n > len(batch.arena) {
		batch.Flush()
	}
	return batch.arena[batch.used : batch.used+n]
}

// add adds a message with the first n bytes that reserve returned.
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

// AddReply adds the reply that a machine must send, if any: a packet other than DATA.
func (batch *Batch) AddReply(now time.Time, peer netip.AddrPort, local netip.Addr, m Machine) {
	if b := m.AppendReply(now, batch.reserve(maxReply)[:0]); len(b) > 0 {
		batch.add(peer, local, len(b), 0)
	}
}

// AddError adds an ERROR packet.
func (batch *Batch) AddError(peer netip.AddrPort, local netip.Addr, code transfer.ErrorCode, msg string) {
	b := protocol.AppendError(batch.reserve(maxReply)[:0], code, msg)
	batch.add(peer, local, len(b), 0)
}

// AddData adds one message with the first blocks of a run, as many as fit, and reports their number
// to the Sender. It reads the file's bytes directly to their places between the headers. If no
// block is sent, it returns false. Then err says why the file could not be read; it is nil if too
// few bytes could be read.
func (batch *Batch) AddData(now time.Time, peer netip.AddrPort, local netip.Addr, s *protocol.Sender, run protocol.Run, file store.TryReader) (ok bool, err error) {
	block := s.BlockSize()
	stride := transfer.HeaderSize + block
	blocks := min(run.Blocks, batch.conn.Limits().Segments, max(1, min(MaxDatagrams, len(batch.arena))/stride), cap(batch.gaps))
	bytes := int(min(run.Bytes, int64(blocks)*int64(block)))

	b := batch.reserve(blocks*transfer.HeaderSize + bytes)
	roll := s.Agreed().Rollover
	batch.gaps = batch.gaps[:0]
	for i, left := 0, bytes; i < blocks; i++ {
		protocol.AppendHeader(b[i*stride:i*stride], run.Block+int64(i), roll)
		at, n := i*stride+transfer.HeaderSize, min(left, block)
		if n > 0 {
			batch.gaps = append(batch.gaps, b[at:at+n:at+n])
		}
		left -= n
	}
	if bytes > 0 {
		n, err := file.TryReadAt(batch.gaps, run.Offset)
		if n < bytes {
			// Send the whole blocks that were read.
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

// IsEmpty reports whether the batch holds no messages.
func (batch *Batch) IsEmpty() bool { return len(batch.msgs) == 0 }

// Flush sends the messages. Datagrams that the kernel refuses are lost, as they may be on any
// network; when a machine's timer expires, its datagrams are sent again.
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
			batch.Counts.Unsent += int64(len(ms)) // the kernel's buffer stays full, so give up
			break
		}
		batch.Counts.Unsent++
		ms = ms[1:]
	}
	batch.msgs, batch.used = batch.msgs[:0], 0
}

// A RateLimit allows a certain number of events in each second.
type RateLimit struct {
	second int64
	used   int
}

// Allow counts an event, and reports whether this second has had at most the given number of
// events.
func (r *RateLimit) Allow(now time.Time, most int) bool {
	if second := now.Unix(); second != r.second {
		r.second, r.used = second, 0
	}
	r.used++
	return r.used <= most
}
