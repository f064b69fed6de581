package doctor

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/haul-project/haul/tftp/transfer"
)

// agreed is what holds after an OACK, as a client has it.
type agreed struct {
	blockSize int   // 512 without the option
	window    int   // 1 without the option
	size      int64 // -1 without tsize
	timeout   string
	options   []option // all that it holds
}

// An option is one name and value of an OACK, as they came.
type option struct{ name, value string }

// plain is what holds without an OACK.
func plain() agreed { return agreed{blockSize: transfer.DefaultBlockSize, window: 1, size: -1} }

// get returns an option's value, its name in any case.
func (a *agreed) get(name string) (value string, ok bool) {
	for _, o := range a.options {
		if strings.EqualFold(o.name, name) {
			return o.value, true
		}
	}
	return "", false
}

// oackOf returns the options of an OACK without judging them.
func oackOf(p packet) agreed {
	a := plain()
	a.options, _ = parseOACK(p.data)
	return a
}

// parseOACK cuts an OACK into options.
func parseOACK(b []byte) (options []option, ok bool) {
	if len(b) > 0 && b[len(b)-1] != 0 {
		return nil, false
	}
	fields := bytes.Split(b, []byte{0})
	fields = fields[:len(fields)-1] // what follows the last NUL
	if len(fields)%2 != 0 {
		return nil, false
	}
	for i := 0; i < len(fields); i += 2 {
		options = append(options, option{string(fields[i]), string(fields[i+1])})
	}
	return options, true
}

// judge reads an OACK as d's client does, and reports what is wrong with it.
// It returns false if the client gives up.
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
			bad = Failed // no request for options, no eye for an OACK
		}
		v.breaks(ruleUnasked, bad, "%v: %s was not asked for", p, printable([]byte(o.name)))
		return bad == Warning
	}
	if d.exactNames && !exact {
		v.breaks(ruleOACKCase, Failed, "%v: this client looks for lower-case names and overlooks %s", p, printable([]byte(o.name)))
		return false // it would take the blocks for another size, and the first one for the file
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

// asked returns the value that the request gave an option, and whether the
// name came back letter by letter.
func (d *download) asked(name string) (value string, exact, ok bool) {
	for i := 0; i+1 < len(d.asks); i += 2 {
		if strings.EqualFold(d.asks[i], name) {
			return d.asks[i+1], d.asks[i] == name, true
		}
	}
	return "", false, false
}

// exactTimeout is U-Boot's rule, and edk2's.
func exactTimeout(asked string) func(*visit, *agreed) (rule, saw string) {
	return func(_ *visit, a *agreed) (rule, saw string) {
		if a.timeout != "" && a.timeout != asked {
			return ruleTimeout, "timeout " + asked + " was asked for: the client answers ERROR 8"
		}
		return "", ""
	}
}

// noSizeZero is curl's rule.
func noSizeZero(v *visit, a *agreed) (rule, saw string) {
	switch {
	case a.size != 0:
		return "", ""
	case v.env.empty:
		return ruleSizeZero, "curl ends with exit code 71 on empty files"
	}
	return ruleSizeWrong, "the file is not empty; curl ends with exit code 71"
}

// needsSize checks for the size, which UEFI, iPXE and barebox depend on. For an
// empty file a server may leave it out.
func needsSize(v *visit, a *agreed) (rule, saw string) {
	if a.size < 0 && !v.env.empty {
		return ruleNeedsSize, "tsize is missing"
	}
	return "", ""
}

// notTiny is busybox's rule: it has a lower bound of its own.
func notTiny(_ *visit, a *agreed) (rule, saw string) {
	if a.blockSize <= transfer.MinBlockSize {
		return ruleBlockSize, "busybox says \"bad blocksize\" and gives up"
	}
	return "", ""
}
