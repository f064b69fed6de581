package pxe

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/internal/urlpath"
)

// These are the largest lengths of names in an answer, in bytes.
const (
	// maxFile leaves room for a NUL in the field "file" of the packet.
	maxFile = 127

	// maxURLPath is chosen so that a URL that begins with "http://255.255.255.255:65535/" fits in
	// one option 67: firmware does not join several such options.
	maxURLPath = 220
)

// ScriptName is the name of the script that iPXE gets, unless the machine's rule names another one.
const ScriptName = "boot.ipxe"

// A Form is a way to give a client the location of its boot file. Firmware differs in which forms
// it accepts, so a [Server] tries both Redirect and Direct.
type Form uint8

// These are the forms.
const (
	AnyForm  Form = iota
	Redirect      // the offer has no option 43, so the client asks port 4011 for the file
	Direct        // suboption 6 of option 43 is 8, so the client takes the file of the offer (PXE 2.1, table 2-1)
	NumForms      // the number of forms
)

// String returns the form's name in settings and in the log.
func (f Form) String() string {
	switch f {
	case Redirect:
		return "redirect"
	case Direct:
		return "direct"
	}
	return "any"
}

// A Host is the rule for one machine.
type Host struct {
	// Ignore means that the server does not answer the machine, whose firmware then tries the next
	// boot device.
	Ignore bool

	// File is the name of the machine's boot file, and replaces the name in [Rules].Files. If it
	// ends in .ipxe, it is a script: iPXE gets it instead of boot.ipxe, and firmware still gets the
	// file in Rules.Files. File has no effect on a Raspberry Pi, which always requests its own
	// names.
	File string

	// Form is the form of answers that the machine's PXE firmware accepts, if that is known.
	Form Form
}

// Rules determine which machine gets which answer.
type Rules struct {
	// Files maps each architecture to its boot file: a slash-separated name on this server, without
	// a leading slash.
	Files map[Arch]string

	// HTTPPort is the port at which the same files are served by HTTP, at all addresses of this
	// server; 0 means that they are not served by HTTP. HTTPPorts overrides HTTPPort for single
	// addresses.
	HTTPPort  uint16
	HTTPPorts map[dhcp.Addr]uint16

	// Hosts holds the rules for single machines. If KnownOnly is set, all other machines get no
	// answer.
	Hosts     map[dhcp.MAC]Host
	KnownOnly bool

	// Relays holds the networks of the relay agents, and of the clients behind them.
	Relays []dhcp.Network
}

// check returns an error for invalid rules.
func (r *Rules) check() error {
	for arch, name := range r.Files {
		if arch == UnknownArch || arch >= RaspberryPi {
			return fmt.Errorf("a boot file for %v: it cannot have one", arch)
		}
		if err := checkFile(name); err != nil {
			return fmt.Errorf("the boot file for %v: %w", arch, err)
		}
	}
	for mac, host := range r.Hosts {
		if mac == (dhcp.MAC{}) {
			return errors.New("a rule for a host without a MAC")
		}
		if host.Form > Direct {
			return fmt.Errorf("the rule for %v: unknown form %d", mac, host.Form)
		}
		if host.File == "" {
			continue
		}
		if err := checkFile(host.File); err != nil {
			return fmt.Errorf("the rule for %v: %w", mac, err)
		}
	}
	for _, n := range r.Relays {
		if n.Bits < 0 || n.Bits > 32 {
			return fmt.Errorf("%v/%d is not an IPv4 network: its prefix has 0 to 32 bits", n.Addr, n.Bits)
		}
	}
	return nil
}

func checkFile(name string) error {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	switch {
	case name == "" || strings.HasPrefix(name, "/"):
		return fmt.Errorf("%q is not a name below the directory that is served", name)
	case strings.ContainsFunc(name, control):
		return fmt.Errorf("the name %q has a control character", name)
	case len(name) > maxFile || len(urlpath.Append(nil, name)) > maxURLPath:
		return fmt.Errorf("the name %q is too long: %d bytes are the most, %d as part of a URL", name, maxFile, maxURLPath)
	}
	return nil
}

// clone returns a copy of the rules, so that the caller's later changes have no effect.
func (r *Rules) clone() Rules {
	c := *r
	c.Files, c.Hosts, c.HTTPPorts = maps.Clone(r.Files), maps.Clone(r.Hosts), maps.Clone(r.HTTPPorts)
	c.Relays = append([]dhcp.Network(nil), r.Relays...)
	return c
}

// httpPort returns the HTTP port at an address of this server, or 0 if HTTP is not served there.
func (r *Rules) httpPort(server dhcp.Addr) uint16 {
	if port, ok := r.HTTPPorts[server]; ok {
		return port
	}
	return r.HTTPPort
}

// relayed reports whether an address is in the networks of the relay agents.
func (r *Rules) relayed(a dhcp.Addr) bool {
	for _, n := range r.Relays {
		if a.Unicast() && n.Contains(a) {
			return true
		}
	}
	return false
}
