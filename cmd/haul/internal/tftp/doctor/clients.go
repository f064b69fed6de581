package doctor

import (
	"net"
	"net/netip"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// A persona imitates a client, or checks a single rule. A new persona is a new row of a table.
type persona struct {
	name  string
	sends string                      // describes the persona's requests; "" means the description of get
	get   download                    // how the persona fetches the file
	act   func(v *visit, d *download) // runs the persona; nil means d.run(v)
	stage stage
}

// A stage says when a persona runs.
type stage uint8

// The stages, in order. The personas of one stage run at the same time.
const (
	together stage = iota // run a few at a time
	waiting               // run all at once, at the same time as the first stage, because they mostly wait
	alone                 // run one at a time after all others, because the server may not survive
)

// clients lists personas that imitate programs for people. Each requests the same options as the
// real program, with the same values and in the same order.
var clients = []persona{
	{name: "curl 7.88", get: download{
		asks:  []string{"tsize", "0", "blksize", "512", "timeout", "1"},
		takes: noSizeZero,
	}},
	{name: "tftp-hpa 5.2", sends: "netascii, its default mode; no options", get: download{
		mode:    "netascii",
		refusal: ruleNetascii,
	}, act: actNetascii},
	{name: "tftp-hpa 5.2 -m octet", get: download{}},
	{name: "busybox 1.35", get: download{
		asks: []string{"tsize", "0"},
	}},
	{name: "busybox 1.35 -b 1432", get: download{
		asks:  []string{"blksize", "1432", "tsize", "0"},
		takes: notTiny,
	}},
	{name: "atftp 0.8", get: download{
		asks:    []string{"tsize", "enable", "blksize", "1432", "windowsize", "8"},
		refusal: ruleMalformed,
	}},
	{name: "atftp 0.8 multicast", get: download{
		asks:    []string{"tsize", "0", "multicast", ""},
		refusal: ruleMalformed,
	}, act: actMulticast},
}

// firmware lists personas that imitate boot firmware and boot loaders.
var firmware = []persona{
	// The value of tsize is the size of the file that U-Boot loaded last.
	{name: "U-Boot 2023", get: download{
		asks:  []string{"timeout", "5", "tsize", "4711", "blksize", "1468"},
		takes: exactTimeout("5"),
	}},
	{name: "U-Boot 2023 windowsize 16", get: download{
		asks:  []string{"timeout", "5", "tsize", "0", "blksize", "1468", "windowsize", "16"},
		takes: exactTimeout("5"),
		loses: 3,
	}},
	{name: "U-Boot 2023 after a reset", sends: "a request from the port of a transfer under way", get: download{
		asks:  []string{"timeout", "5", "tsize", "0", "blksize", "1468"},
		takes: exactTimeout("5"),
	}, act: actReset},
	{name: "barebox", get: download{
		asks:       []string{"timeout", "5", "blksize", "1432", "tsize", "0", "windowsize", "64"},
		exactNames: true,
		trustsSize: true,
		noNACK:     true,
	}},
	{name: "barebox look-up", get: download{
		asks:       []string{"timeout", "5", "blksize", "512", "tsize", "0"},
		exactNames: true,
		trustsSize: true,
		takes:      needsSize,
	}, act: actBareboxLookup},
	{name: "GRUB 2", get: download{
		asks:       []string{"blksize", "1024", "tsize", "0"},
		exactNames: true,
		trustsSize: true,
		needsOACK:  true,
		everyAck:   true,
	}, act: actGRUB},
	{name: "iPXE", get: download{
		asks:       []string{"blksize", "1432", "tsize", "0"},
		trustsSize: true,
		everyAck:   true,
	}},
	{name: "iPXE tftpsize://", get: download{
		asks:       []string{"blksize", "1432", "tsize", "0"},
		trustsSize: true,
		takes:      needsSize,
	}, act: func(v *visit, d *download) { probe(v, d, fault(transfer.NotDefined, "TFTP Aborted")) }},
	{name: "UEFI PXE (edk2)", sends: "octet tsize=0 blksize=1468, ERROR 8; octet blksize=1468 from the next port", get: download{
		asks:       []string{"tsize", "0", "blksize", "1468"},
		trustsSize: true,
		takes:      needsSize,
	}, act: actUEFI},
	{name: "Raspberry Pi", sends: "each request twice; octet tsize=0, ERROR 0; octet tsize=0 blksize=1024", get: download{
		asks:    []string{"tsize", "0"},
		repeats: true,
	}, act: actRaspberry},
	{name: "Windows bootmgr", get: download{
		asks: []string{"tsize", "0", "blksize", "1456", "windowsize", "4"},
	}},
	{name: "plain ROM", sends: "octet, no options, no last ACK; then another request", get: download{
		noLastAck: true,
	}, act: actROM, stage: alone},
}

// actNetascii fetches the file in netascii, and decodes it.
func actNetascii(v *visit, d *download) {
	v.differs = ruleNetascii
	if d.run(v) {
		v.content = []byte(fromNetascii.Replace(string(v.content)))
	}
}

// actMulticast requests the option multicast without a value, like atftp's "--option multicast". The
// real program would join the group that the server offers; here the answer suffices (RFC 2090).
func actMulticast(v *visit, d *download) {
	p, ok := v.ask(d.request(v))
	switch {
	case !ok:
		v.unanswered("the request " + d.describe())
	case p.op == transfer.ErrorPacket:
		v.breaks(ruleMalformed, Failed, "%v to a multicast option without a value", p)
	case p.op == transfer.OptionAck:
		a := oackOf(p)
		if group, ok := a.get("multicast"); ok && group == "" {
			v.breaks(ruleMalformed, Failed, "%v: the empty value of multicast is echoed", p)
		} else if ok {
			v.note("the server offers multicast (%s), which is not followed", printable([]byte(group)))
		}
	}
	v.sendAbort("closed")
}

// askToOpen requests a file. If the server does not open the file, askToOpen records the fault and
// returns false.
func askToOpen(v *visit, d *download) (p packet, ok bool) {
	p, ok = v.ask(d.request(v))
	switch {
	case !ok:
		v.unanswered("the request " + d.describe())
	case p.op == transfer.ErrorPacket:
		v.breaks(ruleRefused, Failed, "%v to the request %s, where a plain request is served", p, d.describe())
		ok = false
	}
	return p, ok
}

// probe requests a file's size, stores it in v.size, and ends the transfer with the ERROR packet in
// the argument end. v.size stays -1 if the answer does not contain the size.
func probe(v *visit, d *download, end []byte) {
	p, ok := askToOpen(v, d)
	switch {
	case !ok:
		return
	case p.op == transfer.OptionAck:
		if a, ok := d.judge(v, p); ok {
			v.size = a.size
		}
	case !v.env.empty:
		v.breaks(ruleNeedsOACK, Failed, "%v is the first answer: there is no way to learn the size", p)
	}
	v.send(end)
}

// actBareboxLookup requests a file only to learn its size. It acknowledges the OACK, and ends the
// transfer with an ERROR without a code or a text.
func actBareboxLookup(v *visit, d *download) {
	p, ok := askToOpen(v, d)
	switch {
	case !ok:
		return
	case p.op == transfer.OptionAck:
		if a, ok := d.judge(v, p); ok {
			v.size = a.size
			v.send(ack(0))
		}
	default:
		v.note("no OACK: barebox takes the file for one without a size")
	}
	v.send(fault(transfer.NotDefined, "\x00"))
}

const grubOpens = 4 // how many times actGRUB opens the file and closes it early

// actGRUB opens the file several times and closes it early, as GRUB does with its many small files.
// Then it fetches the whole file.
func actGRUB(v *visit, d *download) {
	for range grubOpens {
		p, ok := v.ask(d.request(v))
		if !ok || p.op != transfer.OptionAck {
			break // run records the fault
		}
		v.send(ack(0))
		v.receive(v.env.retry)
		if !v.endAndReopen() {
			return
		}
	}
	d.run(v)
}

// actUEFI requests the file only to learn its size, and ends that transfer with ERROR 8. Then it
// fetches the file through a new socket, whose local port is the next higher one if that is free.
func actUEFI(v *visit, d *download) {
	if v.env.empty {
		v.skip("the file is empty, so a server may leave out its size")
		return
	}
	probe(v, d, fault(transfer.OptionsRefused, "User aborted the transfer"))
	size := v.size
	if len(v.report.Findings) > 0 || v.reopen(v.port()+1) != nil {
		return
	}
	again := download{asks: []string{"blksize", "1468"}, refusal: ruleProbe}
	if again.run(v); v.renamed(ruleNoAnswer, ruleProbe) {
		return
	}
	v.size = size
}

// actRaspberry sends every request twice within milliseconds.
func actRaspberry(v *visit, d *download) {
	b := d.request(v)
	v.send(b)
	time.Sleep(repeatAfter)
	p, ok := v.ask(b)
	if !ok {
		v.unanswered("the request " + d.describe())
		return
	}
	if p.op == transfer.OptionAck {
		if _, ok := d.judge(v, p); !ok {
			v.sendAbort("Early terminate")
			return
		}
	}
	v.sendAbort("Early terminate")
	v.countTransfers()
	if v.reopen(0) != nil {
		return
	}
	again := download{asks: []string{"tsize", "0", "blksize", "1024"}, refusal: ruleProbe, repeats: true}
	if again.run(v) {
		v.countTransfers()
	}
}

// repeatAfter is the pause after which a persona repeats its request, as an impatient ROM does.
const repeatAfter = 2 * time.Millisecond

// countTransfers records a fault if the server answers a repeated request with two transfers.
func (v *visit) countTransfers() {
	for from := range v.others {
		v.breaks(ruleRepeat, Warning, "a request sent twice was answered from %v and from %v", v.peer, from)
	}
}

// actReset abandons a transfer and sends a new request from the same port. U-Boot sends the size of
// the file that it loaded last as tsize, and forgets it at a reset, so the value differs.
func actReset(v *visit, d *download) {
	before := download{asks: []string{"timeout", "5", "tsize", "4711", "blksize", "1468"}}
	p, ok := v.ask(before.request(v))
	if !ok || p.op != transfer.OptionAck {
		v.skip("the server knows no options, so old answers look like new ones")
		v.sendAbort("closed")
		return
	}
	if p, ok = v.next(ack(0), func(p packet) bool { return p.op == transfer.Data }); !ok {
		v.skip("no DATA came")
		return
	}
	old := v.peer
	if p, ok = v.restart(d); ok {
		d.judge(v, p)
		if v.peer != old { // otherwise the server has forgotten the old transfer
			_, _ = v.conn.WriteToUDPAddrPort(fault(transfer.NotDefined, "closed"), old)
		}
	} else {
		v.misses(ruleReset, Failed, "with block 1 of a transfer unacknowledged, a new request from the same port is not answered by an OACK")
	}
	v.sendAbort("closed")
}

// restart sends a new request from the port of an old transfer, and waits for its OACK from any port. It
// ignores blocks of the old transfer.
func (v *visit) restart(d *download) (packet, bool) {
	for range maxTries {
		v.send(d.request(v))
		for until := time.Now().Add(v.env.retry); ; {
			p, ok := v.receiveAny(until)
			if !ok {
				break
			}
			if p.op == transfer.OptionAck {
				v.peer = p.from
				return p, true
			}
		}
		if v.over() {
			break
		}
	}
	return packet{}, false
}

// actROM fetches the file without sending the last ACK, and then sends another request.
func actROM(v *visit, d *download) {
	v.homeOnly = true
	if !d.run(v) {
		return
	}
	if !v.report.Whole {
		v.skip("the file was not fetched to its end, so no last ACK was due")
		return
	}
	// End the transfer when it has been judged. Otherwise the server would keep sending the last
	// block to the next program that uses this port.
	defer func(conn *net.UDPConn, peer netip.AddrPort) {
		_, _ = conn.WriteToUDPAddrPort(fault(transfer.NotDefined, "closed"), peer)
	}(v.conn, v.peer)
	if v.reopen(0) != nil {
		return
	}
	p, ok := v.ask(d.request(v))
	if !ok || p.op != transfer.Data {
		v.misses(ruleLastAck, Failed, "after a transfer without a last ACK the next request is not served")
	}
	v.sendAbort("closed")
}
