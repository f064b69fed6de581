package convert

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"
)

// Dnsmasq converts the TFTP settings in text, the content of a configuration file of dnsmasq, to a
// configuration file of haul. The comments in the new file, and the errors, name the old file as
// `file`. The errors are usage errors: [failure.Usage].
func Dnsmasq(file, text string) (string, error) {
	d := dnsmasq{draft: draft{file: file}, account: "nobody"} // dnsmasq's default
	line := 0
	for l := range strings.Lines(text) {
		line++
		d.line(line, l)
	}
	d.settings()
	return d.finish()
}

// A dnsmasq is the state of a conversion: the values of the directives read so far.
type dnsmasq struct {
	draft
	enabled    bool
	addresses  []string // the addresses in listen-address
	listenLine int
	interfaces string // the text of the line that restricts the interfaces; "" without such a line
	limitLine  int

	account, group string
	accountLine    int
}

// A directive is a line of the form name, or name=part,part.
type directive struct {
	line  int
	words string // the text of the line, as it appears in the file
	name  string
	parts []string
}

// first returns the first part, or "".
func (d *directive) first() string {
	if len(d.parts) == 0 {
		return ""
	}
	return d.parts[0]
}

// line converts a line of the file.
func (d *dnsmasq) line(number int, text string) {
	l, closed := parseDirective(text)
	l.line = number
	switch {
	case closed:
		d.apply(&l)
	case strings.Contains(l.name, "tftp"):
		d.note(number, l.words, `a closing " is missing`)
	}
}

// parseDirective reads a line as dnsmasq does. In double quotes a backslash begins an escape, and
// comma, = and # are literal. closed is false if a quote is still open at the end of the line.
func parseDirective(text string) (l directive, closed bool) {
	text = strings.TrimSpace(text)
	var part strings.Builder
	var spaces string // added to the part only if more text follows, because trailing spaces do not belong to it
	named, quoted, blank := false, false, true
	end := func() {
		if named {
			l.parts = append(l.parts, part.String())
		} else {
			l.name = part.String()
		}
		part.Reset()
		spaces = ""
	}
	i := 0
	for ; i < len(text); i++ {
		c := text[i]
		if !quoted {
			switch {
			case c == '"':
				quoted, blank = true, false
				continue
			case c == '#' && blank:
				text = strings.TrimSpace(text[:i])
				continue
			case !named && c == '=', named && c == ',':
				end()
				named, blank = true, false
				continue
			case c == ' ' || c == '\t' || c == '\r':
				if blank = true; part.Len() > 0 {
					spaces += " "
				}
				continue
			}
			blank = false
		} else if c == '"' {
			quoted = false
			continue
		} else if e := strings.IndexByte(`"tnebr\`, text[min(i+1, len(text)-1)]); c == '\\' && i+1 < len(text) && e >= 0 {
			i++
			c = "\"\t\n\x1b\b\r\\"[e]
		}
		part.WriteString(spaces)
		part.WriteByte(c)
		spaces = ""
	}
	end()
	l.words = text
	return l, !quoted
}

// foreign maps directives that concern TFTP, but are not settings of a TFTP server, to the reason
// why they cannot be converted.
var foreign = map[string]string{
	"dhcp-boot":    "haul has no DHCP; the DHCP server has to name haul's address and this file",
	"pxe-service":  "haul has no DHCP, and so no PXE menu",
	"pxe-prompt":   "haul has no DHCP, and so no PXE menu",
	"conf-file":    "haul has read this file only; convert the other by itself",
	"conf-dir":     "haul has read this file only; convert those of the directory by themselves",
	"conf-script":  "haul has read this file only, and runs no script",
	"tftp-secure":  "haul serves all files that its user may read, whoever owns them",
	"tftp-no-fail": "haul does not start without its directories",
}

// apply converts one directive.
func (d *dnsmasq) apply(l *directive) {
	set := func(key string, parts ...string) { d.set(key, l.line, l.words, parts...) }
	switch l.name {
	case "enable-tftp":
		d.enabled = true
		if len(l.parts) > 0 {
			d.limit(l)
		}
	case "interface", "except-interface", "no-dhcp-interface":
		d.limit(l)
	case "tftp-root":
		if l.first() == "" {
			d.note(l.line, l.words, "it names no directory")
			return
		}
		if len(l.parts) > 1 {
			d.note(l.line, l.words, `haul gives a directory to those who ask an address: [files] root = ["on=ADDRESS=DIR"]`)
			return
		}
		set(dirs, l.parts...)
	case "tftp-unique-root":
		set("files.per_client", cmp.Or(l.first(), "ip"))
	case "tftp-max":
		set("tftp.max_transfers", l.first())
	case "tftp-mtu":
		set("tftp.mtu", l.first())
	case "tftp-lowercase":
		set("files.fold_case", "true")
	case "tftp-no-blocksize":
		set(refuse, "blksize")
	case "tftp-single-port":
		set("tftp.single_port", "true")
	case "tftp-port-range":
		d.ports(l)
	case "quiet-tftp":
		set("log.quiet", "true")
	case "listen-address":
		d.addresses, d.listenLine = append(d.addresses, l.parts...), l.line
	case "user":
		d.account, d.accountLine = cmp.Or(l.first(), d.account), l.line
	case "group":
		d.group = l.first()
	default:
		reason := foreign[l.name]
		if reason == "" && strings.Contains(l.name, "tftp") {
			reason = "haul does not know this line"
		}
		if reason != "" {
			d.note(l.line, l.words, reason)
		}
	}
}

// ports converts a range of ports. dnsmasq also accepts a range whose first port is above its last
// one.
func (d *dnsmasq) ports(l *directive) {
	if len(l.parts) != 2 {
		d.note(l.line, l.words, "it is FIRST,LAST")
		return
	}
	var a, b uint16
	if _, err := fmt.Sscan(l.parts[0]+" "+l.parts[1], &a, &b); err != nil {
		d.note(l.line, l.words, "both are numbers from 1 to 65535")
		return
	}
	d.set(ports, l.line, l.words, fmt.Sprintf("%d-%d", min(a, b), max(a, b)))
}

// limit handles a directive that restricts dnsmasq to some interfaces. haul cannot do that, so
// limit only adds a note.
func (d *dnsmasq) limit(l *directive) {
	d.interfaces, d.limitLine = l.words, l.line
	d.note(l.line, l.words, "haul listens on addresses, not on interfaces; name those that are meant in [tftp] listen")
}

// settings sets the settings that depend on several lines.
func (d *dnsmasq) settings() {
	if !d.enabled {
		d.note(0, "", "there is no enable-tftp, so dnsmasq serves no TFTP")
	}
	var where []string
	for _, address := range d.addresses {
		where = append(where, net.JoinHostPort(address, "69"))
	}
	switch {
	case where != nil:
		d.set(listen, d.listenLine, "listen-address", where...)
	case d.interfaces != "":
		d.hide(d.limitLine, d.interfaces)
	default:
		d.set(listen, 0, "", ":69")
	}
	if d.group != "" {
		d.account += ":" + d.group
	}
	d.set(user, d.accountLine, "user", d.account)
	if slices.ContainsFunc(d.given, func(a assignment) bool { return a.key == "tftp.single_port" }) {
		d.drop(ports, "with tftp-single-port there is but one port")
	}
}
