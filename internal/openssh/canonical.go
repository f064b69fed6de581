package openssh

import (
	"net"
	"strings"
)

// canonical returns the whole name of a host, if CanonicalizeHostname wants
// that, and whether it did. CNAMEs are not followed, as by default in ssh.
func (r *reader) canonical(host string) (string, bool, error) {
	switch strings.ToLower(r.first("canonicalizehostname", "no")) {
	case "no", "false":
		return host, false, nil
	case "yes", "true":
		if proxied := r.command != "" || r.jump != nil; proxied {
			return host, true, nil
		}
	}
	maxDots := 1
	if r.values["canonicalizemaxdots"] != nil {
		maxDots = r.number("canonicalizemaxdots")
	}
	host = strings.ToLower(host)
	// An address has no other name, and one with a dot at its end is whole.
	if whole, ok := strings.CutSuffix(host, "."); ok {
		return whole, true, nil
	}
	if net.ParseIP(host) != nil || strings.Count(host, ".") > maxDots {
		return host, true, nil
	}
	for _, domain := range r.values["canonicaldomains"] {
		if name := host + "." + strings.TrimPrefix(domain, "."); r.sys.lookup(r, name+".") {
			return name, true, nil
		}
	}
	if !r.flag("canonicalizefallbacklocal", true) {
		return "", false, configErrorf("canonicalizehostname: %s is in none of the domains", host)
	}
	return host, true, nil
}
