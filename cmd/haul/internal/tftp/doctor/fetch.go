package doctor

import (
	"cmp"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// run fetches the file into v.content: at most env.maxBytes bytes, and at most d.most if that is
// not 0. It reports whether this client succeeded.
func (d *download) run(v *visit) bool {
	d.failed = false
	f := &fetch{download: d, visit: v, agreed: plain(), want: 1, early: map[int64][]byte{}}
	p, ok := f.start()
	if !ok {
		d.failed = true
		return false
	}
	v.content = []byte{}
	if p.op == transfer.Data {
		f.data(p)
	}
	f.loop()
	v.size = f.agreed.size
	f.judgeLoss()
	if d.failed {
		v.content = nil
	}
	return !d.failed
}

// A fetch is a download under way.
type fetch struct {
	*download
	*visit
	agreed
	want      int64 // number of the block that the client expects next; the first block is 1
	acked     int64
	last      []byte // the packet to repeat after a timeout
	nacked    int64  // number of the missing block that was reported last; 0 if no block was
	nackedAt  time.Time
	lost      bool // the client has dropped the block that download.loses names
	recovered bool
	early     map[int64][]byte // blocks that arrived out of order, for clients that keep them
	since     time.Time        // start of the current wait: time of the last progress, NACK or timeout
	moved     time.Time        // time of the last progress
	wrapToOne int              // how many times block 1 arrived instead of block 0
	short     int              // number of windows that the server did not fill
	ended     bool
}

// start sends the request and judges the first answer.
func (f *fetch) start() (packet, bool) {
	b := f.request(f.visit)
	if f.repeats {
		f.send(b)
	}
	p, ok := f.ask(b)
	switch {
	case !ok:
		f.unanswered("the request " + f.describe())
		return p, false
	case p.op == transfer.ErrorPacket:
		f.breaks(cmp.Or(f.refusal, ruleRefused), Failed, "%v to the request %s, where a plain request is served", p, f.describe())
		return p, false
	case p.op == transfer.OptionAck:
		if f.agreed, ok = f.judge(f.visit, p); !ok {
			f.send(fault(transfer.OptionsRefused, "Option Negotiation Failed"))
			return p, false
		}
		f.reply(ack(0))
		return p, true
	case p.op != transfer.Data:
		f.breaks(ruleNoAnswer, Failed, "the answer to the request is %v", p)
		return p, false
	case f.needsOACK:
		f.breaks(ruleNeedsOACK, Failed, "%v is the first answer: without an OACK this client gives up", p)
		f.sendAbort("closed")
		return p, false
	}
	f.last = b
	return p, true
}

// reply sends a packet, and keeps it so that a timeout can repeat it.
func (f *fetch) reply(b []byte) {
	f.last = b
	f.send(b)
}

// loop receives packets until the file is complete or the client gives up.
func (f *fetch) loop() {
	f.since, f.moved = time.Now(), time.Now()
	for tries := 0; !f.ended; {
		before := f.want
		p, ok := f.receive(f.patience() - time.Since(f.since))
		switch {
		case !ok && f.visit.over():
			f.timeIsUp()
			return
		case !ok:
			f.windowEnded()
			if tries++; tries >= maxTries || tries > 1 && len(f.others) > 0 {
				f.stalled()
				return
			}
			f.again()
			f.since = time.Now()
		case p.op == transfer.Data:
			f.data(p)
		case p.op == transfer.OptionAck && f.want == 1:
			f.send(f.last) // ACK 0 was lost
		case p.op == transfer.ErrorPacket:
			rule := ruleBreaksOff
			if f.want > 65535 {
				rule = ruleRollover
			}
			f.fail(rule, "%v at block %d", p, f.want)
		}
		if f.want > before {
			tries, f.since, f.moved = 0, time.Now(), time.Now()
		}
	}
}

// patience returns how long the client waits for the next packet.
func (f *fetch) patience() time.Duration {
	if f.loses > 0 && f.nacked == f.want {
		return f.env.rewind // like U-Boot, which reports a gap only once
	}
	return f.env.retry
}

// again handles a timeout of the client: it acknowledges the last block that arrived in order or,
// before the first block, repeats the last packet.
func (f *fetch) again() {
	if f.want > 1 {
		f.acked = f.want - 1
		f.last = ack(f.acked)
	}
	f.send(f.last)
}

// data handles a DATA packet. It accepts the expected block, and the early blocks that follow it;
// it may keep, drop or report any other block.
func (f *fetch) data(p packet) {
	ahead := int64(int16(p.block - uint16(f.want)))
	switch {
	case len(p.data) > f.blockSize:
		f.fail(ruleBlockLong, "%v where %d were agreed on", p, f.blockSize)
	case ahead == 0 && f.want == f.loses && !f.lost && f.window > 1 && len(p.data) == f.blockSize:
		f.lost = true
	case ahead == 0:
		f.accept(p.data)
		for b, ok := f.early[f.want]; ok && !f.ended; b, ok = f.early[f.want] {
			delete(f.early, f.want)
			f.accept(b)
		}
	case f.want == 1 && (ahead == -1 || f.want+ahead > f.acked+int64(f.window)):
		f.fail(ruleFirstBlock, "%v came before any block 1", p)
	case f.want&0xffff == 0 && p.block == 1:
		if f.wrapToOne++; f.wrapToOne > 1 {
			f.fail(ruleRollover, "block 1 follows block 65535, where this client waits for 0")
			return
		}
		f.send(ack(f.want - 1))
	case ahead > 0 && f.want+ahead > f.acked+int64(f.window):
		f.fail(ruleWindowExceeded, "%v came when block %d was the last acknowledged, and the window was %d", p, f.acked, f.window)
	case ahead > 0 && f.noNACK:
		f.early[f.want+ahead] = append([]byte(nil), p.data...)
	case f.everyAck, f.nacked != f.want:
		if ahead == -1 && time.Since(f.moved) >= serverTimer {
			f.windowEnded()
		}
		f.nack()
	}
}

// serverTimer is shorter than any server's wait for an acknowledgement. It is longer than the delay
// between a block and a copy of it that the network makes.
const serverTimer = 100 * time.Millisecond

// windowEnded records that the server waits for an acknowledgement before the window is full. Such
// a server sends nothing, or sends its latest block again.
func (f *fetch) windowEnded() {
	if f.window > 1 && f.nacked != f.want && f.want-1 > f.acked {
		f.short++
	}
}

// nack acknowledges the last block that arrived in order, to report a gap.
func (f *fetch) nack() {
	f.nacked, f.nackedAt = f.want, time.Now()
	f.since = f.nackedAt
	f.acked = f.want - 1
	f.reply(ack(f.acked))
}

// accept handles the expected block.
func (f *fetch) accept(b []byte) {
	if f.nacked == f.want && f.want == f.loses {
		f.recovered = true
		if took := time.Since(f.nackedAt); took >= f.env.rewind {
			f.slow(took)
		}
	}
	most := f.env.maxBytes
	if f.most > 0 {
		most = min(most, f.most)
	}
	f.content = append(f.content, b...)
	f.want++
	switch {
	case len(b) < f.blockSize:
		f.finish()
	case int64(len(f.content)) >= most:
		f.content = f.content[:most]
		f.cut()
	case f.want-1-f.acked >= int64(f.window):
		f.acked = f.want - 1
		f.reply(ack(f.acked))
	}
}

// finish handles the end of the file.
func (f *fetch) finish() {
	f.ended = true
	f.report.Whole = true
	if !f.noLastAck {
		f.send(ack(f.want - 1))
	}
}

// cut ends the transfer early, because enough bytes were fetched or the time is up.
func (f *fetch) cut() {
	f.ended = true
	f.sendAbort("closed")
}

func (f *fetch) fail(rule, format string, args ...any) {
	f.breaks(rule, Failed, format, args...)
	f.failed, f.ended = true, true
	f.sendAbort("closed")
}

// timeIsUp ends the transfer at the visit's deadline. If the server is still sending, that is not a
// fault, and only the beginning of the file is judged.
func (f *fetch) timeIsUp() {
	switch {
	case f.ctx.Err() != nil:
		f.skip("the run was over")
		f.failed = true
	case time.Since(f.moved) > f.env.retry || len(f.content) == 0:
		f.stalled()
		return
	default:
		f.note("only the first %d bytes came in %v", len(f.content), f.env.timeout)
	}
	f.cut()
}

// stalled gives up a transfer and records why it stalled.
func (f *fetch) stalled() {
	switch {
	case len(f.others) > 0:
		f.fail(rulePort, "after block %d packets came from another port than %v", f.want-1, f.peer)
	case f.want > 65535:
		f.fail(ruleRollover, "block %d never came", f.want)
	case f.want == 1 && len(f.early) > 0:
		f.fail(ruleFirstBlock, "other blocks came, but never block 1")
	case f.loses > 0 && f.nacked == f.want:
		f.slow(time.Since(f.nackedAt))
		f.fail(ruleRewind, "block %d never came", f.want)
	default:
		f.fail(ruleStalls, "block %d never came, though ACK %d was sent %d times", f.want, f.want-1, maxTries)
	}
}

// slow records that the server ignored a NACK, a repeated ACK that reports a gap.
func (f *fetch) slow(took time.Duration) {
	f.breaks(ruleRewind, Failed, "block %d was lost; after one repeated ACK %d it took %.1f s to come, or longer",
		f.want, f.want-1, took.Seconds())
}

// judgeLoss reports how the server used windows, and how it repaired the block that was lost on purpose.
func (f *fetch) judgeLoss() {
	if f.short >= maxTries-1 && len(f.report.Findings) == 0 {
		f.breaks(ruleWindowShort, Warning, "windowsize %d was confirmed, and %d windows ended before that", f.window, f.short)
	}
	switch {
	case f.loses == 0 || f.recovered || f.failed:
	case f.window == 1:
		f.note("the server does not grant a window, so its rewind is not judged")
	default:
		f.note("the file is too short, or the window too small, to judge the rewind")
	}
}
