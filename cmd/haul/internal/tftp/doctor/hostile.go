package doctor

import (
	"bytes"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// outside lists names outside the served directory, and the verdict on a server that serves them.
// If a server serves several of them, only the verdict on the first one counts.
var outside = []struct {
	name string
	bad  Verdict
}{
	{"../../../../../../etc/hostname", Failed},
	{"x/../../../../../../../etc/hostname", Failed},
	{`..\..\..\..\..\..\etc\hostname`, Failed},
	{"/etc/hostname", Warning}, // the served directory may have its own etc
}

func checkTraversal(v *visit, _ *download) {
	for _, o := range outside {
		// One request suffices, because a server that does not answer has not served the file.
		v.send(request(transfer.ReadRequest, o.name, "octet"))
		p, ok := v.receive(v.env.retry)
		if ok && p.op != transfer.ErrorPacket {
			v.breaks(ruleTraversal, o.bad, "%q is served", o.name)
			v.sendAbort("closed")
		} else if !ok {
			v.note("no answer to %q", o.name)
		}
		if v.reopen(0) != nil {
			return
		}
	}
}

// maxAnswers is how many packets a server may send to a requester that sends nothing after its
// request, while the doctor listens.
const maxAnswers = 6

// checkSilent requests a file and never sends another packet, as if the request had a forged
// address.
func checkSilent(v *visit, d *download) {
	b := d.request(v)
	v.send(b)
	var first packet
	answers, size := 0, 0
	for until := time.Now().Add(v.env.silent); answers <= maxAnswers; {
		p, ok := v.receive(time.Until(until))
		if !ok {
			break
		}
		answers++
		switch {
		case answers == 1:
			first = p
			first.data = bytes.Clone(p.data)
		case p.op == transfer.Data && p.block != first.block:
			v.breaks(ruleWindowExceeded, Failed, "%v came without an ACK", p)
			v.sendAbort("closed")
			return
		case p.op == transfer.Data && !bytes.Equal(p.data, first.data):
			v.breaks(ruleResend, Failed, "%v, and sent again %v, or others", first, p)
		}
		size += transfer.HeaderSize + len(p.data)
	}
	v.note("%d answers of %d bytes together to %d bytes asked, in %v", answers, size, len(b), v.env.silent)
	if answers > maxAnswers {
		v.breaks(ruleSilent, Warning, "more than %d answers to one unacknowledged request within %v", maxAnswers, v.env.silent)
	}
	v.sendAbort("closed")
}

// checkLostOACK ignores an OACK, and waits for the server to repeat it.
func checkLostOACK(v *visit, d *download) {
	p, ok := v.answer(d)
	if !ok {
		return
	}
	if p.op != transfer.OptionAck {
		v.skip("the server sends no OACK")
		v.sendAbort("closed")
		return
	}
	for until := time.Now().Add(v.env.lost); ; {
		p, ok := v.receive(time.Until(until))
		if !ok {
			v.misses(ruleOACKLost, Warning, "the OACK was not acknowledged, and did not come again within %v", v.env.lost)
			break
		}
		if p.op == transfer.OptionAck {
			break
		}
	}
	v.sendAbort("closed")
}

// badPackets lists malformed packets that a server must survive.
var badPackets = [][]byte{
	{},
	{0},
	{0, 1},
	[]byte("\x00\x01no-end"),
	[]byte("\x00\x01\x00\x00"),
	[]byte("\x00\x01name\x00octet"),
	[]byte("\x00\x01name\x00\x00"),
	[]byte("\x00\x01name\x00no-mode\x00"),
	[]byte("\x00\x01name\x00octet\x00blksize"),
	[]byte("\x00\x01name\x00octet\x00blksize\x00"),
	[]byte("\x00\x03\x00\x01data"),
	[]byte("\x00\x04"),
	[]byte("\x00\x05"),
	[]byte("\x00\x06\x00"),
	[]byte("\x00\x09\x00\x00"),
	[]byte("\xff\xff"),
}

// checkBadPackets sends malformed packets, and checks that the server still answers.
func checkBadPackets(v *visit, d *download) {
	if p, ok := v.ask(d.request(v)); !ok || p.op != transfer.Data {
		v.skip("the server does not answer any more")
		return
	}
	v.sendAbort("closed")
	for _, b := range badPackets {
		if v.reopen(0) != nil {
			return
		}
		_, _ = v.conn.WriteToUDPAddrPort(b, v.env.server)
	}
	if v.reopen(0) != nil {
		return
	}
	if p, ok := v.ask(d.request(v)); !ok || p.op != transfer.Data {
		v.misses(ruleBadPacket, Failed, "after %d malformed packets the server does not answer any more", len(badPackets))
	}
	v.sendAbort("closed")
}
