package load

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// What a transfer may fail for, besides what its machine says.
var (
	errContent = errors.New("content differs from haul's test content")
	errDiffers = errors.New("content differs from that of the first download")
	errStopped = errors.New("stopped")
	errNoPort  = errors.New("no free port on this host (see net.ipv4.ip_local_port_range)")
)

// A machine is a Sender or a Receiver.
type machine interface {
	AppendReply(now time.Time, b []byte) []byte
	Deadline() time.Time
	Expire(now time.Time)
	Abort(code transfer.ErrorCode, msg string, err error)
	Done() (bool, error)
	Heard() bool
	Agreed() transfer.Options
	BlockSize() int
	Stats() transfer.Stats
}

// A task is one transfer. It is used again for others, with all its memory.
type task struct {
	loop     *loop
	tag      int
	receiver transfer.Receiver
	sender   transfer.Sender
	machine  machine // the one of both that is in use
	socket   *udp.Member
	timer    int // its place in the heap, from 1; 0 for none
	write    bool

	name      int64 // number in the name
	connected bool
	dallying  bool // done, and answers repeats
	scheduled time.Time
	began     time.Time // when the first request left
	heard     time.Time // when the first answer came
	limit     time.Time // when it has taken too long
	posted    time.Time // when it last sent something
	patient   bool      // it has a least time to wait
	acked     int64     // bytes of a write, as counted
	sum       uint64    // of the content
}

// begin makes t the transfer with the given number.
func (t *task) begin(now, due time.Time, index int64, socket *udp.Member) {
	l := t.loop.load
	t.socket, socket.Tag = socket, t.tag
	t.name = index % int64(l.Names)
	t.connected, t.dallying, t.write = false, false, l.Write
	t.scheduled, t.began, t.heard, t.limit = due, now, time.Time{}, now.Add(l.Timeout)
	t.acked, t.sum = 0, 0
	// The timer of a Sender with a window also says when to go on.
	t.patient = l.MinTimer > 0 && (!l.Write || l.Window <= 1)
	q := transfer.Request{Name: l.Target.Name}
	if strings.Contains(q.Name, placeholder) {
		q.Name = strings.ReplaceAll(q.Name, placeholder, strconv.FormatInt(t.name, 10))
	}
	if !l.NoOptions {
		q.Offer = transfer.Options{BlockSize: l.BlockSize, Window: l.Window, HasSize: true}
	}
	if l.Write {
		if q.Offer.HasSize {
			q.Offer.Size = l.Size
		}
		t.machine = &t.sender
		t.sender.Request(now, q, l.Size)
	} else {
		t.machine = &t.receiver
		t.receiver.Request(now, q)
	}
}

// receive takes in a message, if it is the server's.
func (t *task) receive(now time.Time, m *udp.Message) {
	server := t.loop.run.server
	if !t.connected && m.Peer.Addr() != server.Addr() {
		return
	}
	if m.Segment == 0 {
		t.handle(now, m.Data)
	} else {
		for b := range m.Datagrams() {
			t.handle(now, b)
		}
	}
	if t.connected || !t.machine.Heard() {
		return
	}
	if done, _ := t.machine.Done(); done && !t.loop.lossy {
		return // one packet was all: to connect would not pay
	}
	t.connected = true
	if err := t.socket.Connect(m.Peer); err != nil {
		t.machine.Abort(transfer.NotDefined, "client cannot connect", err)
	}
}

// handle gives one datagram to the machine, unless it gets lost.
func (t *task) handle(now time.Time, b []byte) {
	lp := t.loop
	if lp.lost() {
		return
	}
	if t.heard.IsZero() {
		t.heard = now
		if !lp.run.heard.Load() {
			lp.run.heard.Store(true)
		}
	}
	if t.write {
		t.sender.Handle(now, b)
		if acked := t.sender.Acked(); acked != t.acked {
			lp.moved(acked - t.acked)
			t.acked = acked
		}
		return
	}
	c := t.receiver.Handle(now, b)
	if len(c.Data) == 0 && !c.Last {
		return
	}
	if err := t.check(c); err != nil {
		t.receiver.Abort(transfer.NotDefined, err.Error(), err)
		return
	}
	lp.moved(int64(len(c.Data)))
	t.receiver.Stored(now)
}

// check compares a piece of a file with what it should be.
func (t *task) check(c transfer.Chunk) error {
	l := t.loop.load
	if l.Pattern {
		if string(c.Data) != string(patternAt(c.Offset, len(c.Data))) {
			return errContent
		}
	} else {
		t.sum += t.loop.run.references.block(c.Offset, c.Data)
	}
	if !c.Last {
		return nil
	}
	got, agreed := t.receiver.Received(), t.receiver.Agreed()
	switch {
	case l.Size > 0 && got != l.Size:
		return fmt.Errorf("%d bytes came instead of %d", got, l.Size)
	case agreed.HasSize && got != agreed.Size:
		return fmt.Errorf("%d bytes came where the server announced %d", got, agreed.Size)
	}
	return nil
}

// compare compares a whole file with the first of its name.
func (t *task) compare() error {
	k := reference{name: t.name, block: t.receiver.BlockSize()}
	if !t.loop.run.references.compare(k, digest{sum: t.sum, size: t.receiver.Received()}) {
		return errDiffers
	}
	return nil
}

// packets returns the number of DATA packets that carried what has been moved.
func (t *task) packets() int64 {
	moved := t.acked
	if !t.write {
		moved = t.receiver.Received()
	}
	n := moved / int64(t.machine.BlockSize())
	if done, err := t.machine.Done(); done && err == nil {
		n++ // the last one is not full
	}
	return n
}

// refused says what an error of the socket means for the transfer.
func (t *task) refused(err error) {
	if errors.Is(err, syscall.ECONNREFUSED) {
		if t.machine.Heard() {
			err = fmt.Errorf("server closed its port in the midst of the transfer: %w", err)
		} else {
			err = fmt.Errorf("nobody listens: %w", err)
		}
	}
	// Nobody is there to be told.
	t.fail(err)
}

// fail ends the transfer.
func (t *task) fail(err error) {
	t.machine.Abort(transfer.NotDefined, "client failed", err)
}

// deadline returns when expire is due; zero means that t need not be kept.
func (t *task) deadline() time.Time {
	d := t.machine.Deadline()
	if t.dallying {
		return d
	}
	if t.patient {
		if least := t.posted.Add(t.loop.load.MinTimer); d.Before(least) {
			d = least
		}
	}
	if d.IsZero() || t.limit.Before(d) {
		return t.limit
	}
	return d
}

// expire does what is due at the time.
func (t *task) expire(now time.Time) {
	if !t.dallying && !now.Before(t.limit) {
		t.machine.Abort(transfer.NotDefined, "transfer takes too long", fmt.Errorf("not done in %v", t.loop.load.Timeout))
		return
	}
	t.machine.Expire(now)
}

// send sends what the machine owes.
func (t *task) send(now time.Time) {
	if b := t.machine.AppendReply(now, t.loop.out[:0]); len(b) > 0 {
		t.posted = now
		t.post(b)
	}
	for t.write {
		run := t.sender.Due(now)
		if run.Blocks == 0 {
			return
		}
		t.posted = now
		t.data(now, run)
	}
}

// post sends one datagram, unless it gets lost.
func (t *task) post(b []byte) {
	if t.loop.lost() {
		return
	}
	t.sent(t.socket.Write(b, 0))
}

// sent takes in what came of a send.
func (t *task) sent(err error) {
	switch {
	case err == nil:
	case errors.Is(err, syscall.EAGAIN):
		if !t.machine.Heard() {
			t.fail(errNoPort)
		}
	default:
		t.refused(err)
	}
}

// data sends the first blocks of a run, as many as one message takes.
func (t *task) data(now time.Time, run transfer.Run) {
	lp := t.loop
	block := t.sender.BlockSize()
	stride := transfer.HeaderSize + block
	blocks := min(run.Blocks, max(1, maxSend/stride))
	if lp.load.Loss > 0 {
		blocks = 1 // each is lost alone
	}
	roll := t.sender.Agreed().Rollover
	b, left := lp.out[:0], run.Bytes
	for i := range blocks {
		b = transfer.AppendHeader(b, run.Block+int64(i), roll)
		n := min(left, int64(block))
		b = append(b, patternAt(run.Offset+int64(i)*int64(block), int(n))...)
		left -= n
	}
	t.sender.Sent(now, blocks)
	if blocks == 1 {
		t.post(b)
		return
	}
	t.sent(t.socket.Write(b, stride))
}

// maxSend is the most bytes of one send: what the kernel cuts up at once.
const maxSend = 65507
