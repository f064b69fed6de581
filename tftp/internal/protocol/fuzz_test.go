package protocol

import (
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

func FuzzParseRequest(f *testing.F) {
	for _, s := range []string{
		"\x00\x01f\x00octet\x00",
		"\x00\x01pxelinux.0\x00octet\x00tsize\x000\x00blksize\x001468\x00",
		"\x00\x01f\x00octet\x00tsize\x000\x00blksize\x00512\x00timeout\x006\x00",
		"\x00\x01u-boot.img\x00octet\x00timeout\x005\x00tsize\x00262144\x00blksize\x001468\x00windowsize\x0016\x00",
		"\x00\x01f\x00octet\x00tsize\x00enable\x00multicast\x00\x00",
		"\x00\x02f\x00NetASCII\x00utimeout\x0010000\x00rollover\x001\x00",
		"\x00\x01f\x00octet\x00blksize2\x001428\x00blksize\x001428\x00",
		"\x00\x02f\x00mail\x00",
		"\x00\x01f\x00octet\x00blksize",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := ParseRequest(b)
		if err != nil {
			if e, ok := err.(*transfer.Error); !ok || e.Code != transfer.IllegalOperation || e.Message == "" || q != (transfer.Request{}) {
				t.Fatalf("%+v, %v", q, err)
			}
			return
		}
		if err := q.Offer.Check(); err != nil || q.Offer.Size < 0 {
			t.Fatalf("%+v: %v", q, err)
		}
		again := AppendRequest(nil, q)
		if p, err := ParseRequest(again); err != nil || p != q || len(again) > len(b) {
			t.Fatalf("%x became %x: %+v, then %+v, %v", b, again, q, p, err)
		}
		if p, err := ParseRequestWithout(^transfer.OptionSet(0), b); err != nil || p.Offer != (transfer.Options{}) || p.Name != q.Name {
			t.Fatalf("all options are refused, and %x is read as %+v, %v", b, p, err)
		}
		if agreed := Agree((transfer.Limits{Rollover: transfer.RolloverOne}), q, 1000); agreed.Rollover.Next() == 0 && q.Offer.Rollover != transfer.RolloverZero || len(appendOptions(nil, agreed)) > len(b) {
			t.Fatalf("%+v was answered by %+v, by a server that continues with 1", q.Offer, agreed)
		}
		agreed := Agree(transfer.Limits{}, q, 1000)
		if agreed.Check() != nil || agreed.BlockSize > q.Offer.BlockSize || agreed.Window > min(q.Offer.Window, safeWindow) {
			t.Fatalf("%+v was answered by %+v", q.Offer, agreed)
		}
		// A client must accept everything that a server confirms.
		o, err := parseOptionAck(appendOptionAck(nil, agreed))
		if err == nil {
			err = confirmedBy(q.Offer, o, q.Write)
		}
		if err != nil || o != agreed {
			t.Fatalf("%+v, confirmed as %+v: %v", agreed, o, err)
		}
	})
}

func FuzzParseOptionAck(f *testing.F) {
	for _, s := range []string{"", "blksize\x001468\x00tsize\x000\x00", "windowsize\x0016\x00WINDOWSIZE\x0016\x00", "rollover\x001\x00utimeout\x0010000\x00", "tsize"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := parseOptionAck(append([]byte{0, byte(transfer.OptionAck)}, b...))
		if err != nil {
			return
		}
		if err := o.Check(); err != nil {
			t.Fatalf("%q: %+v: %v", b, o, err)
		}
		if p, err := parseOptionAck(appendOptionAck(nil, o)); p != o || err != nil {
			t.Fatalf("%q: %+v, then %+v, %v", b, o, p, err)
		}
	})
}

// A fuzzScript is a list of choices, one for each byte. After its end it yields zeros.
type fuzzScript []byte

func (f *fuzzScript) next() int {
	if len(*f) == 0 {
		return 0
	}
	n := int((*f)[0])
	*f = (*f)[1:]
	return n
}

// maxExpiries is how many times the timer may expire while a peer is silent.
const maxExpiries = 60

// FuzzSenderHandle and FuzzReceiverHandle choose from these events.
const (
	fuzzNext   = iota // the packet that the machine waits for
	fuzzNear          // a packet with a number close to that of the expected one
	fuzzAny           // a packet with any number
	fuzzOACK          // an OACK, usually of the requested options
	fuzzBytes         // random bytes
	fuzzError         // an ERROR
	fuzzPause         // time passes
	fuzzExpire        // the deadline expires
	fuzzRepeat        // the request arrives again
	fuzzHalf          // from here on the driver sends, or stores, only a part
	fuzzWhole         // from here on it sends or stores everything again
	fuzzKinds
)

func fuzzOptions(script *fuzzScript) transfer.Options {
	o := transfer.Options{BlockSize: 8, Window: []int{0, 1, 2, 3, 4, 8, 70, 300}[script.next()%8], Rollover: transfer.Rollover(script.next() % 3)}
	if script.next()%4 == 0 {
		o.MicroTimeout = transfer.MinMicroTimeout
	}
	if script.next()%8 == 0 {
		o = transfer.Options{}
	}
	return o
}

// addScripts adds scripts that each repeat one choice, and one that contains all.
func addScripts(f *testing.F) {
	for kind := range byte(fuzzKinds) {
		script := []byte{1, 5, 1, 1, 1, 40}
		for i := range byte(20) {
			script = append(script, kind, i, fuzzNext, 1, 0)
		}
		f.Add(script)
		f.Add(append([]byte{0}, script[1:]...))
	}
}

func FuzzSenderHandle(f *testing.F) {
	addScripts(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 400 {
			return
		}
		script := fuzzScript(b)
		now := time.Unix(1_000_000, 0)
		var s Sender
		client := script.next()%2 == 0
		o := fuzzOptions(&script)
		block := int64(blockSizeOf(o))
		size := int64(script.next())*block + int64(script.next())%block
		if client {
			s.Request(now, transfer.Request{Name: "f", Offer: o}, size)
		} else {
			s.Answer(now, o, size)
		}
		half := false
		drain := func() (packets, blocks int64) {
			for len(s.AppendReply(now, nil)) > 0 {
				if packets++; packets > 1 {
					t.Fatal("two replies in a row")
				}
			}
			for run := s.Due(now); run.Blocks > 0; run = s.Due(now) {
				last := run.Block + int64(run.Blocks) - 1
				if run.Block <= s.acked || last > min(s.acked+s.window, s.total) ||
					run.Offset != (run.Block-1)*s.block || run.Bytes != min(size, last*s.block)-run.Offset {
					t.Fatalf("%+v is due, %d acknowledged, window %d, total %d", run, s.acked, s.window, s.total)
				}
				n := run.Blocks
				if half {
					n = (n + 1) / 2
				}
				s.Sent(now, n)
				if blocks += int64(n); blocks > 2*s.window {
					t.Fatalf("%d blocks sent at once in a window of %d", blocks, s.window)
				}
				if half {
					break
				}
			}
			done, _ := s.Done()
			if d := s.Deadline(); done != d.IsZero() {
				t.Fatalf("done %v, deadline %v, phase %d, acked %d, next %d, %+v", done, d, s.phase, s.acked, s.next, s.recovery)
			} else if !done && d.Sub(now) > max(s.timer.ceiling, maxRTO) {
				t.Fatalf("waits %v", d.Sub(now))
			}
			return packets, blocks
		}
		drain()
		for len(script) > 0 {
			acked, duplicates := s.acked, s.stats.Duplicates
			expired := false
			switch kind := script.next() % fuzzKinds; kind {
			case fuzzNext:
				s.Handle(now, appendAck(nil, min(s.next-1, s.acked+s.window), s.agreed.Rollover))
			case fuzzNear:
				s.Handle(now, appendAck(nil, max(0, s.acked+int64(int8(script.next()))/4), s.agreed.Rollover))
			case fuzzAny:
				s.Handle(now, []byte{0, 4, byte(script.next()), byte(script.next())})
			case fuzzOACK:
				ack := o
				if script.next()%4 == 0 {
					ack.Window = script.next()
				}
				s.Handle(now, appendOptionAck(nil, ack))
			case fuzzBytes:
				n := min(script.next()%8, len(script))
				s.Handle(now, script[:n])
				script = script[n:]
			case fuzzError:
				if script.next()%8 == 0 {
					s.Handle(now, AppendError(nil, transfer.ErrorCode(script.next()), "no"))
				}
			case fuzzPause:
				d := now.Add(time.Duration(script.next()) * 300 * time.Microsecond)
				if s.Deadline().IsZero() || d.Before(s.Deadline()) {
					now = d
				}
			case fuzzExpire:
				if expired = !s.Deadline().IsZero(); expired {
					now = s.Deadline()
					s.Expire(now)
				}
			case fuzzRepeat:
				s.Repeat(now)
				expired = true
			case fuzzHalf, fuzzWhole:
				half = kind == fuzzHalf
			}
			late := half // blocks that were left over may now be sent
			packets, blocks := drain()
			if s.acked < acked || s.acked >= s.next && s.phase == senderData && s.total > 0 {
				t.Fatalf("acknowledged %d, then %d of %d sent", acked, s.acked, s.next-1)
			}
			if s.window == 1 && s.stats.Duplicates > duplicates && packets+blocks > 0 && !late {
				t.Fatal("a repeated ACK was answered")
			}
			if packets+blocks > 2*s.window+1 {
				t.Fatalf("%d packets for one", packets+blocks)
			}
		}
		half = false
		drain()
		for n, bursts := 0, int64(0); ; n++ {
			if done, _ := s.Done(); done {
				break
			}
			if n > maxExpiries {
				t.Fatal("never gives up")
			}
			now = s.Deadline()
			// This is not a timeout, but the time of the next burst.
			if s.deadline.IsZero() || now.Before(s.deadline) {
				n--
				if bursts++; bursts > s.window {
					t.Fatal("bursts without end")
				}
			} else {
				bursts = 0
			}
			s.Expire(now)
			drain()
		}
		s.Handle(now, appendAck(nil, s.acked, s.agreed.Rollover))
		s.Expire(now)
		if p, n := drain(); p+n > 0 {
			t.Fatalf("%d packets after the end", p+n)
		}
	})
}

func FuzzReceiverHandle(f *testing.F) {
	addScripts(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 400 {
			return
		}
		script := fuzzScript(b)
		now := time.Unix(1_000_000, 0)
		var r Receiver
		client := script.next()%2 == 0
		mode := transfer.Mode(script.next() % 2)
		o := fuzzOptions(&script)
		limitWindow(&o, mode)
		if client {
			r.Request(now, transfer.Request{Name: "f", Mode: mode, Offer: o})
		} else {
			r.Answer(now, mode, o)
		}
		taken := map[int64]bool{} // blocks delivered
		stored := int64(0)        // all blocks up to here are stored
		slow, whole := false, false
		data := make([]byte, transfer.HeaderSize+1+r.block)
		handle := func(p []byte) {
			acked := r.acked
			c := r.Handle(now, p)
			if len(c.Data) == 0 && !c.Last {
				return
			}
			k := c.Offset/r.block + 1
			if c.Offset%r.block != 0 || k < 1 || k > acked+r.window || int64(len(c.Data)) > r.block ||
				taken[k] || whole || mode == transfer.Netascii && k > 1 && !taken[k-1] {
				t.Fatalf("%d bytes at %d, last %v, block %d taken: %v", len(c.Data), c.Offset, c.Last, k, taken[k])
			}
			taken[k], whole = true, c.Last
		}
		store := func() {
			r.Stored(now)
			for taken[stored+1] || stored+1 == r.last && r.tail == 0 { // an empty block needs no storing
				stored++
			}
		}
		drain := func() (packets int64) {
			if !slow {
				store()
			}
			for {
				reply := r.AppendReply(now, nil)
				if len(reply) == 0 {
					break
				}
				if packets++; packets > 1 {
					t.Fatal("two replies in a row")
				}
				if transfer.OpcodeOf(reply) == transfer.Acknowledgement && r.acked > stored {
					t.Fatalf("block %d acknowledged, %d stored", r.acked, stored)
				}
			}
			done, err := r.Done()
			if done && err == nil && (!whole || int64(len(taken)) < r.last-1) {
				t.Fatal("done, but not whole")
			}
			if !done && r.Deadline().IsZero() != r.storing {
				t.Fatalf("deadline %v, stored %v", r.Deadline(), !r.storing)
			}
			return packets
		}
		drain()
		for len(script) > 0 {
			switch kind := script.next() % fuzzKinds; kind {
			case fuzzNext, fuzzNear, fuzzAny:
				k, n := r.got+1, r.block
				if kind != fuzzNext {
					k = max(0, k+int64(int8(script.next()))/4)
					n = max(0, n+1-int64(max(0, script.next()-230)))
				}
				AppendHeader(data[:0], k, r.agreed.Rollover)
				if kind == fuzzAny {
					data[2], data[3] = byte(script.next()), byte(script.next())
				}
				data = append(data[:transfer.HeaderSize], make([]byte, n)...)
				handle(data)
			case fuzzOACK:
				ack := o
				if script.next()%4 == 0 {
					ack.Window = script.next()
				}
				handle(appendOptionAck(nil, ack))
			case fuzzBytes:
				n := min(script.next()%8, len(script))
				handle(script[:n])
				script = script[n:]
			case fuzzError:
				if script.next()%8 == 0 {
					handle(AppendError(nil, transfer.ErrorCode(script.next()), "no"))
				}
			case fuzzPause:
				d := now.Add(time.Duration(script.next()) * 300 * time.Microsecond)
				if r.Deadline().IsZero() || d.Before(r.Deadline()) {
					now = d
				}
			case fuzzExpire:
				if d := r.Deadline(); !d.IsZero() {
					now = d
					r.Expire(now)
				}
			case fuzzRepeat:
				r.Repeat(now)
			case fuzzHalf, fuzzWhole:
				slow = kind == fuzzHalf
			}
			drain()
		}
		slow = false
		drain()
		for n := 0; !r.Deadline().IsZero(); n++ {
			if n > maxExpiries {
				t.Fatal("never gives up")
			}
			now = r.Deadline()
			r.Expire(now)
			drain()
		}
		if done, _ := r.Done(); !done {
			t.Fatal("waits for nothing, and is not done")
		}
	})
}
