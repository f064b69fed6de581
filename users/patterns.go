package users

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/haul-project/haul/internal/wildcard"
)

// A pattern is an element of a from= option: a network, or an address with wildcards.
type pattern struct {
	not     bool         // the pattern began with !, so it denies addresses
	network netip.Prefix // network to match; if it is not valid, text is used instead
	text    string       // address to match, with the wildcards * and ?
}

// parsePatterns parses the value of a from= option: see "AUTHORIZED_KEYS FILE FORMAT" in sshd(8)
// and "PATTERNS" in ssh_config(5).
//
// Host names are not looked up, as by default in OpenSSH. So a pattern that allows a name matches
// no address. A pattern that denies a name could not be enforced, so it is an error.
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

// looksNumeric reports whether a pattern is meant for addresses rather than host names. A pattern of
// hexadecimal digits only counts as an address, although it could be a name.
func looksNumeric(s string) bool {
	return strings.Trim(s, "0123456789abcdef.:*?/") == ""
}

// fromAny reports whether the patterns allow an address. The address must match at least one
// pattern, and must not match any pattern with a leading !.
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
