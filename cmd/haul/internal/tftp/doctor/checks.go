package doctor

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// checks lists personas that each test one rule.
var checks = []persona{
	{name: "unknown option", get: download{
		asks: []string{"blksize", "1024", "x-haul-doctor", "1", "tsize", "0"},
	}, act: checkUnknown},
	{name: "malformed options", sends: "one request for each of several values out of range", act: checkMalformed},
	{name: "option names in upper case", get: download{
		asks: []string{"BLKSIZE", "1024", "TSIZE", "0"},
	}, act: checkOptionCase},
	{name: "mode in upper case", get: download{mode: "OCTET"}, act: checkModeCase},
	{name: "leading slash", sends: "the name with a leading slash, or without its own", act: checkSlash},
	{name: "largest blocks", get: download{
		asks: []string{"blksize", "65464"},
	}, act: checkFragments},
	{name: "repeated request", sends: "the same request twice within 4 ms", get: download{
		asks: []string{"blksize", "512", "tsize", "0"},
	}, act: checkRepeat},
	{name: "repeated ACK", sends: "blksize=8, and ACK 2 twice", get: download{
		asks: []string{"blksize", "8"},
	}, act: checkApprentice},
	{name: "stray packet", sends: "blksize=8, and ACK 1 from another port", get: download{
		asks: []string{"blksize", "8"},
	}, act: checkStray, stage: waiting},
	{name: "block 65536", get: download{
		asks: []string{"blksize", "8", "windowsize", "32", "tsize", "0"},
		most: (65536 + 8) * 8,
	}, act: checkRollover},
	{name: "missing file", sends: "a name that does not exist", act: checkMissing},
	{name: "path traversal", sends: "names that lead out of the directory", act: checkTraversal},
	{name: "lost OACK", get: download{
		asks: []string{"timeout", "1", "blksize", "1024"},
	}, act: checkLostOACK, stage: waiting},
	{name: "silent requester", sends: "octet, no options, and never an ACK", act: checkSilent, stage: waiting},
	{name: "malformed packets", sends: "requests cut off, unknown opcodes, an empty datagram; then a request", act: checkBadPackets, stage: alone},
}

func checkUnknown(v *visit, d *download) {
	p, ok := v.answer(d)
	if !ok {
		return
	}
	switch p.op {
	case transfer.ErrorPacket:
		v.breaks(ruleRefused, Failed, "%v to a request with an unknown option", p)
	case transfer.OptionAck:
		a := oackOf(p)
		if _, ok := a.get("x-haul-doctor"); ok {
			v.breaks(ruleUnknown, Failed, "%v: the option x-haul-doctor does not exist", p)
		}
	}
	v.sendAbort("closed")
}

// malformed lists options with invalid values, which a server must not confirm.
var malformed = [][2]string{
	{"blksize", "abc"}, {"blksize", "7"}, {"blksize", ""},
	{"windowsize", "0"}, {"windowsize", "70000"},
	{"timeout", "0"}, {"timeout", "256"},
	{"tsize", "-1"},
}

func checkMalformed(v *visit, _ *download) {
	var saw []string
	for _, o := range malformed {
		d := download{asks: o[:]}
		p, ok := v.answer(&d)
		if !ok {
			v.renamed(ruleNoAnswer, ruleMalformed)
			return
		}
		if p.op == transfer.ErrorPacket || p.op == transfer.OptionAck && believed(p, o[0], o[1]) {
			saw = append(saw, fmt.Sprintf("%v to %s=%q", p, o[0], o[1]))
		}
		if !v.endAndReopen() {
			return
		}
	}
	if len(saw) > 0 {
		v.breaks(ruleMalformed, Warning, "%s", strings.Join(saw, "; "))
	}
}

// believed reports whether an OACK confirms a malformed option. A smaller window is a valid answer
// to a window that is too large, and the file's size is a valid answer to any tsize.
func believed(p packet, name, asked string) bool {
	a := oackOf(p)
	value, ok := a.get(name)
	switch {
	case !ok:
		return false
	case name == "tsize", name == "windowsize" && asked != "0":
		return value == asked
	}
	return true
}

func checkOptionCase(v *visit, d *download) {
	lower := download{asks: []string{"blksize", "1024", "tsize", "0"}}
	p, ok := v.answer(&lower)
	if !ok || p.op != transfer.OptionAck {
		v.skip("the server confirms no options in lower case either")
		v.sendAbort("closed")
		return
	}
	if !v.endAndReopen() {
		return
	}
	if p, ok = v.answer(d); ok && p.op != transfer.OptionAck {
		v.breaks(ruleOptionCase, Warning, "%v to %s, where lower case had an OACK", p, d.describe())
	}
	v.sendAbort("closed")
}

func checkModeCase(v *visit, d *download) {
	p, ok := v.ask(d.request(v))
	switch {
	case !ok:
		v.misses(ruleModeCase, Failed, "no answer to the mode OCTET")
	case p.op != transfer.Data:
		v.breaks(ruleModeCase, Failed, "%v to the mode OCTET", p)
	}
	v.sendAbort("closed")
}

func checkSlash(v *visit, _ *download) {
	other, had := strings.CutPrefix(v.env.name, "/")
	if !had {
		other = "/" + v.env.name
	}
	p, ok := v.ask(request(transfer.ReadRequest, other, "octet"))
	switch {
	case !ok:
		v.misses(ruleSlash, Warning, "no answer to the name %q", other)
	case p.op != transfer.Data:
		v.breaks(ruleSlash, Warning, "%v to the name %q", p, other)
	}
	v.sendAbort("closed")
}

// headers returns the total size of the IP, UDP and TFTP headers in bytes.
func headers(v6 bool) int {
	if v6 {
		return 40 + 8 + transfer.HeaderSize
	}
	return 20 + 8 + transfer.HeaderSize
}

func checkFragments(v *visit, d *download) {
	p, ok := v.answer(d)
	if !ok {
		return
	}
	if p.op == transfer.OptionAck {
		a, _ := d.judge(v, p)
		whole := a.blockSize + headers(v.env.server.Addr().Is6())
		if whole > v.env.mtu {
			v.breaks(ruleFragments, Warning, "%v: packets of %d bytes on a path of %d", p, whole, v.env.mtu)
		}
	}
	v.sendAbort("closed")
}

func checkRepeat(v *visit, d *download) {
	b := d.request(v)
	v.send(b)
	time.Sleep(repeatAfter)
	if _, ok := v.ask(b); !ok {
		v.unanswered("the request " + d.describe())
		return
	}
	for until := time.Now().Add(v.env.quiet); len(v.others) == 0; {
		if _, ok := v.receive(time.Until(until)); !ok {
			break
		}
	}
	v.countTransfers()
	v.sendAbort("closed")
}

// begin starts a lock-step transfer, and returns block 1 and the values in force. If block 1 does
// not arrive, it notes that and returns false.
func (v *visit) begin(d *download) (packet, agreed, bool) {
	a := plain()
	p, ok := v.answer(d)
	if ok && p.op == transfer.OptionAck {
		if a, ok = d.judge(v, p); ok {
			p, ok = v.next(ack(0), func(p packet) bool { return p.op == transfer.Data })
		}
	}
	if !ok || p.op != transfer.Data || p.block != 1 {
		v.skip("no block 1 came")
		v.sendAbort("closed")
		return p, a, false
	}
	return p, a, true
}

// After the repeated ACK, checkApprentice follows the transfer for up to maxFollowed blocks. It
// needs at least minFollowed blocks to distinguish a server that doubles each block from a server
// whose timer expired once.
const (
	maxFollowed = 40
	minFollowed = 6
)

// checkApprentice repeats one ACK, and then acknowledges every DATA that arrives, even a repeated
// one, as iPXE and GRUB do. If the server answers repeated ACKs, it sends all further blocks twice.
func checkApprentice(v *visit, d *download) {
	p, a, ok := v.begin(d)
	if !ok {
		return
	}
	got, repeated := uint16(1), 0
	for ok && len(p.data) == a.blockSize && got < maxFollowed {
		v.send(ack(int64(p.block)))
		if p.block == 2 && got == 2 && repeated == 0 {
			v.send(ack(2))
		}
		for p, ok = v.receive(v.env.retry); ok && p.op != transfer.Data; p, ok = v.receive(v.env.retry) {
		}
		if ok && p.block == got+1 {
			got++
		} else if ok {
			repeated++
		}
	}
	v.sendAbort("closed")
	switch followed := int(got) - 2; {
	case followed < minFollowed:
		v.skip("the file is too short")
	case 2*repeated > followed:
		v.breaks(ruleApprentice, Failed, "after one repeated ACK %d of the next %d blocks came twice", repeated, followed)
	}
}

func checkStray(v *visit, d *download) {
	p, a, ok := v.begin(d)
	if !ok {
		return
	}
	if len(p.data) < a.blockSize {
		v.skip("the file is too short")
		v.sendAbort("closed")
		return
	}
	for until := time.Now().Add(v.env.quiet); ; {
		p, ok := v.receive(time.Until(until))
		if !ok {
			break
		}
		if p.op == transfer.Data && p.block == 2 {
			v.breaks(ruleWindowExceeded, Failed, "%v came without ACK 1", p)
			v.sendAbort("closed")
			return
		}
	}
	v.sendStray()
	// A server that has accepted the stray ACK sends block 2; any other server sends block 1 again.
	repeats := 0
	for until := time.Now().Add(v.env.rewind); repeats < 2; {
		p, ok := v.receive(time.Until(until))
		if !ok {
			break
		}
		if p.op == transfer.Data && p.block > 1 {
			v.breaks(ruleStray, Failed, "ACK 1 from another port was answered by %v", p)
			v.sendAbort("closed")
			return
		}
		repeats++
	}
	if _, ok := v.next(ack(1), func(p packet) bool { return p.op == transfer.Data && p.block == 2 }); !ok {
		rule := ruleStray
		if len(v.others) > 0 {
			rule = rulePort
		}
		v.misses(rule, Failed, "block 2 never came after a packet from another port")
	}
	v.sendAbort("closed")
}

// sendStray sends ACK 1 to the transfer from another port, and judges the answer to that port.
func (v *visit) sendStray() {
	stranger, err := v.env.listen(0)
	if err != nil {
		v.skip("open a second socket: %v", err)
		return
	}
	_, _ = stranger.WriteToUDPAddrPort(ack(1), v.peer) // an error is like a lost packet: there is no answer
	stranger.SetReadDeadline(time.Now().Add(min(v.env.retry, time.Until(v.deadline))))
	buf := make([]byte, maxPacket)
	n, err := stranger.Read(buf)
	q := parsePacket(buf[:n])
	switch {
	case err != nil:
		v.misses(ruleStrayQuiet, Warning, "nothing came back to a packet from another port, where ERROR 5 should")
	case q.op != transfer.ErrorPacket || q.block != uint16(transfer.UnknownID):
		v.breaks(ruleStrayQuiet, Warning, "%v came back to a packet from another port, where ERROR 5 should", q)
	}
}

func checkRollover(v *visit, d *download) {
	p, ok := v.answer(d)
	if !ok {
		return
	}
	a := plain()
	if p.op == transfer.OptionAck {
		a, _ = d.judge(v, p)
	}
	v.sendAbort("closed")
	switch {
	case a.blockSize > transfer.MinBlockSize || a.window < 2:
		v.skip("the server grants no blocks of 8 bytes in windows, so that 65536 of them would take too long")
		return
	case v.env.maxBytes < d.most || a.size >= 0 && a.size < d.most:
		v.skip("the file, or what may be fetched of it, has fewer than 65536 blocks of 8 bytes")
		return
	}
	if v.reopen(0) != nil {
		return
	}
	if d.run(v) && len(v.content) < 65536*8 {
		v.skip("%d bytes came, fewer than 65536 blocks of 8", len(v.content))
	}
}

func checkMissing(v *visit, _ *download) {
	name := path.Join(path.Dir(v.env.name), "haul-doctor-no-such-file")
	p, ok := v.ask(request(transfer.ReadRequest, name, "octet"))
	switch {
	case !ok:
		v.misses(ruleMissing, Failed, "no answer to %q", name)
	case p.op != transfer.ErrorPacket:
		v.breaks(ruleMissing, Warning, "%v to %q", p, name)
		v.sendAbort("closed")
	case p.block != uint16(transfer.FileNotFound):
		v.breaks(ruleMissing, Warning, "%v to %q", p, name)
	case len(p.data) == 0 || p.data[len(p.data)-1] != 0:
		v.breaks(ruleErrorNUL, Warning, "%v has no NUL at its end", p)
	}
}
