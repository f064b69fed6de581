package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/transfer"
)

// maxRuleNetworks is how many networks all rules of one setting may have together. Each request is
// compared with all of them.
const maxRuleNetworks = 1024

// boundNetworks adds the number of networks of another rule to *count. A rule without networks
// counts as one network. It returns an error if the sum is above maxRuleNetworks.
func boundNetworks(count *int, networks []netip.Prefix) error {
	if *count += max(1, len(networks)); *count > maxRuleNetworks {
		return fmt.Errorf("the rules have more than %d networks together; larger networks may take several in", maxRuleNetworks)
	}
	return nil
}

// refusalsValue returns a value that consists of rules such as "tsize,blksize
// 10.1.0.0/16,10.2.0.0/16", or "tsize" for all clients.
func refusalsValue(to *[]tftp.ClientRule) *value {
	return listValue(false, nil, func(all []string) error {
		rules, err := parseParts(all, parseRefusal)
		if err != nil {
			return err
		}
		n := 0
		for _, rule := range rules {
			if err := boundNetworks(&n, rule.Networks); err != nil {
				return err
			}
		}
		*to = rules
		return nil
	})
}

func parseRefusal(s string) ([]tftp.ClientRule, error) {
	names, networks, err := parseClientRule(s)
	if err != nil {
		return nil, err
	}
	options, err := transfer.ParseOptionSet(names)
	return []tftp.ClientRule{{Refuse: options, Networks: networks}}, err
}

// rolloversValue returns a value that consists of rules such as "1 10.2.0.0/16", or "1" for all
// clients. The value refuses a rule for a network that an earlier rule covers, because the rule
// would never apply.
func rolloversValue(to *[]tftp.ClientRule) *value {
	return listValue(false, nil, func(all []string) error {
		rules, err := parseParts(all, parseRollover)
		if err != nil {
			return err
		}
		n := 0
		for i, rule := range rules {
			if err := boundNetworks(&n, rule.Networks); err != nil {
				return err
			}
			for j, before := range rules[:i] {
				if network, hidden := hides(before.Networks, rule.Networks); hidden {
					return fmt.Errorf("%q never counts%s, because %q is before it; put it first, or leave it out", all[i], network, all[j])
				}
			}
		}
		*to = rules
		return nil
	})
}

func parseRollover(s string) ([]tftp.ClientRule, error) {
	number, networks, err := parseClientRule(s)
	if err != nil {
		return nil, err
	}
	for _, r := range []transfer.Rollover{transfer.RolloverZero, transfer.RolloverOne} {
		if number == fmt.Sprint(r.Next()) {
			return []tftp.ClientRule{{Rollover: r, Networks: networks}}, nil
		}
	}
	return nil, errors.New("it is 0 or 1, and networks behind a space if it is not for all clients: 1 10.2.0.0/16")
}

// parseClientRule reads a rule: a word and the networks of the clients that the rule applies to.
// Without networks, the rule applies to all clients.
func parseClientRule(s string) (word string, networks []netip.Prefix, err error) {
	words := strings.Fields(s)
	switch len(words) {
	case 1:
		return words[0], nil, nil
	case 2:
		if words[1] == "*" { // "*" means all clients, as in a rule of --access
			return words[0], nil, nil
		}
		networks, err = site.ParseNetwork(words[1])
		if err != nil {
			err = fmt.Errorf("%s: %w", words[1], err)
		}
		return words[0], networks, err
	}
	return "", nil, errors.New("it has one or two parts: what holds, and the networks that it is for, with commas and no spaces between them")
}

// hides reports whether an earlier rule, for `networks`, makes a later rule useless for some of its
// own networks. `which` is the first of the later rule's networks that is covered, or "" if the
// earlier rule applies to all clients. An empty list means all networks.
func hides(networks, later []netip.Prefix) (which string, hidden bool) {
	if len(networks) == 0 {
		return "", true
	}
	for _, l := range later {
		if slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Bits() <= l.Bits() && n.Contains(l.Addr()) }) {
			return " for " + l.String(), true
		}
	}
	return "", false
}
