package doctor

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/haul-project/haul/tftp/transfer"
)

// A download describes how one client fetches a file: its request, and how its behaviour differs
// from that of other clients.
type download struct {
	mode string   // "" means octet
	asks []string // option names and values in turn, exactly as this client sends them

	takes      func(*visit, *agreed) (rule, saw string) // checks an OACK as this client does; returns the broken rule, if any
	refusal    string                                   // the rule that a refusal breaks; "" means options-refused
	needsOACK  bool                                     // the client ignores DATA as the first answer
	exactNames bool                                     // the client rejects option names in another case
	trustsSize bool                                     // the client reads tsize bytes; other clients only show tsize
	repeats    bool                                     // the client sends each request twice
	everyAck   bool                                     // the client acknowledges each DATA, even repeated ones
	noNACK     bool                                     // the client keeps early blocks, and does not report gaps
	noLastAck  bool                                     // the client runs the file and sends no last ACK
	loses      int64                                    // number of a block that the client drops once; 0 drops none
	most       int64                                    // largest number of bytes to fetch; 0 means no limit

	failed bool // set by run: the client did not receive the file
}

// request returns the read request packet.
func (d *download) request(v *visit) []byte {
	return request(transfer.ReadRequest, append([]string{v.env.name, cmp.Or(d.mode, "octet")}, d.asks...)...)
}

// describe returns the request in the format of the report.
func (d *download) describe() string {
	words := []string{cmp.Or(d.mode, "octet")}
	for i := 0; i+1 < len(d.asks); i += 2 {
		words = append(words, d.asks[i]+"="+d.asks[i+1])
	}
	return strings.Join(words, " ")
}

// answer sends the request and returns the answer, which the caller judges. If there is no answer,
// it records that and returns false.
func (v *visit) answer(d *download) (packet, bool) {
	p, ok := v.ask(d.request(v))
	if !ok {
		v.unanswered("the request " + d.describe())
	}
	return p, ok
}

// judge interprets an OACK as the client of d does, and records its faults. It returns false if the
// client gives up.
func (d *download) judge(v *visit, p packet) (a agreed, ok bool) {
	a = plain()
	a.options, ok = parseOACK(p.data)
	if !ok {
		v.breaks(ruleBadOACK, Failed, "%v: odd number of fields, or no NUL at the end", p)
		return a, false
	}
	seen := map[string]bool{}
	for _, o := range a.options {
		name := strings.ToLower(o.name)
		if seen[name] {
			v.breaks(ruleBadOACK, Warning, "%v: %s is given twice", p, printable([]byte(name)))
		}
		seen[name] = true
		if !d.take(v, &a, o, p) {
			return a, false
		}
	}
	if d.takes != nil {
		if rule, saw := d.takes(v, &a); rule != "" {
			v.breaks(rule, Failed, "%v: %s", p, saw)
			return a, false
		}
	}
	return a, true
}

// take judges one option of an OACK. It returns false if the client gives up.
func (d *download) take(v *visit, a *agreed, o option, p packet) bool {
	asked, exact, ok := d.asked(o.name)
	if !ok {
		bad := Warning
		if len(d.asks) == 0 {
			bad = Failed // a client that requests no options does not understand an OACK
		}
		v.breaks(ruleUnasked, bad, "%v: %s was not asked for", p, printable([]byte(o.name)))
		return bad == Warning
	}
	if d.exactNames && !exact {
		v.breaks(ruleOACKCase, Failed, "%v: this client looks for lower-case names and overlooks %s", p, printable([]byte(o.name)))
		return false // the client would assume another block size, and take the first block for the whole file
	}
	n, err := strconv.ParseInt(o.value, 10, 64)
	if err != nil || n < 0 {
		if o.value == asked {
			v.breaks(ruleMalformed, Warning, "%v: the value is echoed, though it is no number", p)
			return true
		}
		v.breaks(ruleBadOACK, Failed, "%v: value of %s is no number", p, printable([]byte(o.name)))
		return false
	}
	most, _ := strconv.ParseInt(asked, 10, 64)
	switch strings.ToLower(o.name) {
	case "blksize":
		if n > most || n < transfer.MinBlockSize {
			v.breaks(ruleBlockSize, Failed, "%v where blksize %s was asked for: the client gives up", p, asked)
			return false
		}
		a.blockSize = int(n)
	case "windowsize":
		if n > most || n == 0 {
			v.breaks(ruleWindow, Failed, "%v where windowsize %s was asked for: the client gives up", p, asked)
			return false
		}
		a.window = int(n)
	case "tsize":
		a.size = n
	case "timeout":
		a.timeout = o.value
	}
	return true
}

// asked returns the value that the request has for an option. The result `exact` reports whether
// the request has the name in the same case as the argument.
func (d *download) asked(name string) (value string, exact, ok bool) {
	for i := 0; i+1 < len(d.asks); i += 2 {
		if strings.EqualFold(d.asks[i], name) {
			return d.asks[i+1], d.asks[i] == name, true
		}
	}
	return "", false, false
}

// exactTimeout returns the check of U-Boot and edk2: a timeout in the OACK must be the requested
// one.
func exactTimeout(asked string) func(*visit, *agreed) (rule, saw string) {
	return func(_ *visit, a *agreed) (rule, saw string) {
		if a.timeout != "" && a.timeout != asked {
			return ruleTimeout, "timeout " + asked + " was asked for: the client answers ERROR 8"
		}
		return "", ""
	}
}

// noSizeZero is the check of curl, which rejects a tsize of 0.
func noSizeZero(v *visit, a *agreed) (rule, saw string) {
	switch {
	case a.size != 0:
		return "", ""
	case v.env.empty:
		return ruleSizeZero, "curl ends with exit code 71 on empty files"
	}
	return ruleSizeWrong, "the file is not empty; curl ends with exit code 71"
}

// needsSize checks that the OACK has the size, which UEFI, iPXE and barebox require. For an empty file
// a server may omit it.
func needsSize(v *visit, a *agreed) (rule, saw string) {
	if a.size < 0 && !v.env.empty {
		return ruleNeedsSize, "tsize is missing"
	}
	return "", ""
}

// notTiny is the check of busybox, which refuses blocks as small as 8 bytes.
func notTiny(_ *visit, a *agreed) (rule, saw string) {
	if a.blockSize <= transfer.MinBlockSize {
		return ruleBlockSize, "busybox says \"bad blocksize\" and gives up"
	}
	return "", ""
}
