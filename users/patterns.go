package users

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/haul-project/haul/internal/wildcard"
)

// A pattern is one element of a from= option: a network, or an address with wildcards.
type pattern struct {
	not     bool
	network netip.Prefix // if it is valid; otherwise text applies
	text    string       // may contain * and ?
}

// parsePatterns reads the value of a from= option: see "AUTHORIZED_KEYS FILE FORMAT" in sshd(8) and
// "PATTERNS" in ssh_config(5).
//
// Names are not looked up, which is also the default of OpenSSH, so a name that is allowed matches
// no address. A name that is forbidden could not be enforced, so it is an error.
func parsePatterns(s string) (ps []pattern, err error) {
	for word := range strings.SplitSeq(s, ",") {
		p := pattern{}
		p.text, p.not = strings.CutPrefix(word, "!")
		p.text = strings.ToLower(p.text)
		switch {
		case p.text == "":
			return nil, errors.New("from= has an empty pattern")
		case strings.ContainsAny(p.text, " \t"):
			return nil, fmt.Errorf("the pattern %q of from= has white space in it", word)
		case !strings.ContainsAny(p.text, "*?"):
			if p.network, err = parseNetwork(p.text); err != nil && looksNumeric(p.text) {
				return nil, fmt.Errorf("from=: %w", err)
			}
		}
		if p.not && !p.network.IsValid() && !looksNumeric(p.text) {
			return nil, fmt.Errorf("the pattern %q of from= is a name; names are not looked up, so it would refuse no address", word)
		}
		ps = append(ps, p)
	}
	return ps, nil
}

// looksNumeric reports whether a pattern is meant for addresses. Text of hexadecimal digits counts
// as an address, even if it could be a name.
func looksNumeric(s string) bool {
	return strings.Trim(s, "0123456789abcdef.:*?/") == ""
}

// fromAny reports whether a user may log in from an address. The address must match at least one of
// the patterns, and none of the patterns with a leading !.
func fromAny(ps []pattern, a netip.Addr) bool {
	if !a.IsValid() {
		return false
	}
	a = plain(a)
	ok := false
	for _, p := range ps {
		hit := p.network.Contains(a)
		if !p.network.IsValid() {
			hit = wildcard.Match(p.text, a.String())
		}
		if hit && p.not {
			return false
		}
		ok = ok || hit
	}
	return ok
}
