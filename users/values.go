package users

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// These constants limit the size of a users file, and of the files that it names.
const (
	maxUsers = 100_000
	maxFile  = 64 << 20 // bytes of a users file

	maxKeyFile  = 1 << 20  // bytes of any other file
	maxLine     = 16 << 10 // bytes of a line; OpenSSH allows 8 KiB for keys
	maxUserKeys = 1000     // largest number of keys of one user
	maxKeys     = 1 << 20  // keys of all users together
)

const maxName = 64 // largest length of a user's name, in bytes

// CheckName returns an error if the name of a user is invalid. Names become parts of paths and of
// log lines, so only few characters are allowed: ASCII letters and digits and, except at the
// beginning, any of . _ @ + -.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("the user has no name")
	case len(name) > maxName:
		return fmt.Errorf("the user's name has %d bytes, and %d are the most", len(name), maxName)
	}
	for i, r := range name {
		switch {
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_':
		case strings.ContainsRune(".@+-", r) && i > 0:
		default:
			return fmt.Errorf("the user's name %q has %q in it; it may consist of letters, digits and _, and of . @ + - after the first character", name, r)
		}
	}
	switch {
	case strings.Contains(name, ".."), strings.HasSuffix(name, "."):
		return fmt.Errorf("the user's name %q has two dots in a row, or one at the end", name)
	case !filepath.IsLocal(name):
		// On Windows, names such as NUL and COM1 mean devices.
		return fmt.Errorf("the user's name %q cannot be a file's here", name)
	}
	return nil
}

// replaceTokens replaces %u by the user's name, %% by a percent sign and, unless home is empty, %d
// by home. It returns false if s contains any other token.
func replaceTokens(s, name, home string) (string, bool) {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, "%")
		b.WriteString(before)
		if !ok {
			return b.String(), true
		}
		switch {
		case strings.HasPrefix(after, "u"):
			b.WriteString(name)
		case strings.HasPrefix(after, "d") && home != "":
			b.WriteString(home)
		case strings.HasPrefix(after, "%"):
			b.WriteByte('%')
		default:
			return "", false
		}
		s = after[1:]
	}
}

// expand replaces %u by a user's name, and %% by a percent sign.
func expand(s, name string) (string, error) {
	p, ok := replaceTokens(s, name, "")
	if !ok {
		return "", errors.New("after % only u, for the user's name, and another % are known")
	}
	return p, nil
}

// checkPath returns an error if a path in a users file is invalid.
func checkPath(p string) error {
	switch {
	case p == "":
		return errors.New("the path is missing")
	case strings.ContainsFunc(p, unicode.IsControl):
		return fmt.Errorf("the path %q has control characters in it", p)
	}
	return nil
}

// expandRoot returns the root of a user. A root that is not absolute is relative to a directory
// that the server chooses, and cannot lead out of that directory.
func expandRoot(root, name string) (string, error) {
	if err := checkPath(root); err != nil {
		return "", err
	}
	p, err := expand(root, name)
	if err != nil {
		return "", err
	}
	for part := range strings.FieldsFuncSeq(p, func(r rune) bool { return r == '/' || r == filepath.Separator }) {
		if part == ".." {
			return "", fmt.Errorf("the root %q has .. in it", root)
		}
	}
	if !filepath.IsAbs(p) && !filepath.IsLocal(p) {
		return "", fmt.Errorf("the root %q is neither absolute nor below the directory served", root)
	}
	return filepath.Clean(p), nil
}

// parseNetworks parses networks and addresses. It returns an error if words yields no element.
func parseNetworks(words iter.Seq[string]) (nets []netip.Prefix, err error) {
	for word := range words {
		p, err := parseNetwork(word)
		if err != nil {
			return nil, err
		}
		nets = append(nets, p)
	}
	if len(nets) == 0 {
		return nil, errors.New("the network is missing")
	}
	return nets, nil
}

// parseNetwork parses a network or an address. If bits after the prefix are set, it returns an
// error, as OpenSSH does, because 10.1.2.3/8 may be meant as an address or as a network.
func parseNetwork(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		if a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("the address %q has a zone", s)
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is no network such as 192.0.2.0/24", s)
	}
	if p != p.Masked() {
		return netip.Prefix{}, fmt.Errorf("the network %s has bits beyond its prefix; %v is the network, %v the address", s, p.Masked(), p.Addr())
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p, nil
}

// inAny reports whether an address is in one of the networks.
func inAny(nets []netip.Prefix, a netip.Addr) bool {
	a = plain(a)
	return slices.ContainsFunc(nets, func(n netip.Prefix) bool { return n.Contains(a) })
}

// plain returns an address without a zone, and an IPv4-mapped address as IPv4, for comparisons with
// networks.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// rateUnits are the units of rates, as in the flags of the command: k means 1024, and kB means
// 1000.
var rateUnits = map[string]int64{
	"": 1, "b": 1,
	"k": 1 << 10, "kib": 1 << 10, "kb": 1e3,
	"m": 1 << 20, "mib": 1 << 20, "mb": 1e6,
	"g": 1 << 30, "gib": 1 << 30, "gb": 1e9,
}

// parseRate parses a rate and returns it in bytes per second.
func parseRate(s string) (int64, error) {
	digits := strings.TrimRight(s, "bBiIkKmMgG")
	unit, ok := rateUnits[strings.ToLower(s[len(digits):])]
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n <= 0 || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is no rate: give bytes a second, or a number with k, M, G (of 1024) or kB, MB, GB (of 1000)", s)
	}
	return n * unit, nil
}
