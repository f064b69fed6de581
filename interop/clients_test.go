//go:build unix

package interop

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Options are the options that a client requests. Zero means that it does not request an option.
type options struct {
	block, window int
}

// String names a subtest.
func (o options) String() string {
	var s []string
	if o.block > 0 {
		s = append(s, fmt.Sprintf("blksize %d", o.block))
	}
	if o.window > 0 {
		s = append(s, fmt.Sprintf("windowsize %d", o.window))
	}
	if len(s) == 0 {
		return "no options"
	}
	return strings.Join(s, ", ")
}

// A client is a program that moves files by TFTP, or one way to use it.
type client struct {
	name string
	find func(t *testing.T) program

	// These return the command line that moves remote to local, or local to remote.
	get, put func(o options, server netip.AddrPort, remote, local string) []string

	// repeats is when it repeats a request for the first time, if not after a second.
	repeats time.Duration

	asks []options // the options to test
	long options   // options that move 65536 blocks with the fewest bytes; zero: not tested
	bad  string    // its message for a failure that its exit code does not show
}

// Tftp-hpa's client requests no options at all.
var tftpHPA = client{
	name: "tftp-hpa",
	find: func(t *testing.T) program { return find(t, "tftp-hpa", "tftp") },
	get: func(_ options, s netip.AddrPort, remote, local string) []string {
		return []string{"-m", "binary", s.Addr().String(), port(s), "-c", "get", remote, local}
	},
	put: func(_ options, s netip.AddrPort, remote, local string) []string {
		return []string{"-m", "binary", s.Addr().String(), port(s), "-c", "put", local, remote}
	},
	asks: []options{{}},
	long: options{block: 512},
	bad:  "rror code", // it nevertheless exits with 0
}

// With windows of more than 16 or so, atftp overruns its own socket buffer.
var atftp = client{
	name: "atftp",
	find: func(t *testing.T) program { return find(t, "atftp", "atftp") },
	get: func(o options, s netip.AddrPort, remote, local string) []string {
		return append(atftpOptions(o), "--get", "-r", remote, "-l", local, s.Addr().String(), port(s))
	},
	put: func(o options, s netip.AddrPort, remote, local string) []string {
		return append(atftpOptions(o), "--put", "-r", remote, "-l", local, s.Addr().String(), port(s))
	},
	asks: []options{{}, {block: 8}, {block: 1428}, {block: 65464}, {window: 1}, {window: 8}, {block: 1428, window: 16}},
	long: options{block: 8, window: 8}, // the others are in lock-step
}

func atftpOptions(o options) (args []string) {
	if o.block > 0 {
		args = append(args, "--option", fmt.Sprintf("blksize %d", o.block))
	}
	if o.window > 0 {
		args = append(args, "--option", fmt.Sprintf("windowsize %d", o.window))
	}
	return args
}

// Curl requests tsize, blksize (512 by default) and timeout.
var curl = client{
	name: "curl",
	find: func(t *testing.T) program { return find(t, "curl", "curl") },
	get: func(o options, s netip.AddrPort, remote, local string) []string {
		return append(curlOptions(o), "--output", local, url(s, remote))
	},
	put: func(o options, s netip.AddrPort, remote, local string) []string {
		return append(curlOptions(o), "--upload-file", local, url(s, remote))
	},
	asks: []options{{}, {block: 8}, {block: 1428}, {block: 65464}},
	long: options{block: 8},
}

func curlOptions(o options) []string {
	args := []string{"--silent", "--show-error"}
	if o.block > 0 {
		args = append(args, "--tftp-blksize", strconv.Itoa(o.block))
	}
	return args
}

// This is the same without any options.
var curlPlain = client{
	name: "curl --tftp-no-options",
	find: curl.find,
	get: func(o options, s netip.AddrPort, remote, local string) []string {
		return append(curl.get(o, s, remote, local), "--tftp-no-options")
	},
	put: func(o options, s netip.AddrPort, remote, local string) []string {
		return append(curl.put(o, s, remote, local), "--tftp-no-options")
	},
	asks: []options{{}},
}

// Busybox requires that its request fits into one block, and refuses sizes below 24.
var busybox = client{
	name: "busybox",
	find: func(t *testing.T) program { return find(t, "busybox", "busybox") },
	get: func(o options, s netip.AddrPort, remote, local string) []string {
		return append(busyboxOptions(o), "-g", "-r", remote, "-l", local, s.Addr().String(), port(s))
	},
	put: func(o options, s netip.AddrPort, remote, local string) []string {
		return append(busyboxOptions(o), "-p", "-r", remote, "-l", local, s.Addr().String(), port(s))
	},
	repeats: 50 * time.Millisecond,
	asks:    []options{{}, {block: 64}, {block: 1428}, {block: 65464}},
	long:    options{block: 64},
}

func busyboxOptions(o options) []string {
	if o.block > 0 {
		return []string{"tftp", "-b", strconv.Itoa(o.block)}
	}
	return []string{"tftp"}
}

var haulClient = client{
	name: "haul",
	find: haul,
	get: func(o options, s netip.AddrPort, remote, local string) []string {
		return append(append([]string{"get", "-q"}, haulOptions(o)...), url(s, remote), local)
	},
	put: func(o options, s netip.AddrPort, remote, local string) []string {
		return append(append([]string{"put", "-q"}, haulOptions(o)...), local, url(s, remote))
	},
	asks: []options{{}, {block: 8}, {block: 1428}, {block: 65464}, {window: 1}, {window: 8},
		{block: 8, window: 3}, {block: 1428, window: 64}, {block: 65464, window: 4}},
	long: options{block: 8, window: 16},
}

func haulOptions(o options) (args []string) {
	if o.block > 0 {
		args = append(args, "--blksize", strconv.Itoa(o.block))
	}
	if o.window > 0 {
		args = append(args, "--windowsize", strconv.Itoa(o.window))
	}
	return args
}

// This is the same without any options.
var haulPlain = client{
	name: "haul --no-options",
	find: haul,
	get: func(o options, s netip.AddrPort, remote, local string) []string {
		return append(haulClient.get(o, s, remote, local), "--no-options")
	},
	put: func(o options, s netip.AddrPort, remote, local string) []string {
		return append(haulClient.put(o, s, remote, local), "--no-options")
	},
	asks: []options{{}},
}

func port(a netip.AddrPort) string { return strconv.Itoa(int(a.Port())) }

func url(a netip.AddrPort, name string) string { return "tftp://" + a.String() + "/" + name }
