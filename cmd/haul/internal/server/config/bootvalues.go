package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
)

func addrValue(to *netip.Addr) *value {
	return wordValue(to, func(s string) (netip.Addr, error) {
		if s == "" {
			return netip.Addr{}, nil
		}
		a, err := netip.ParseAddr(s)
		if err != nil {
			return a, errors.New("it is an IP address")
		}
		return a, nil
	})
}

// bootFilesValue returns a value that is a list of architectures and their boot files, such as
// "x64=shimx64.efi".
func bootFilesValue(to *map[pxe.Arch]string) *value {
	return listValue(true, nil, func(all []string) error {
		files := map[pxe.Arch]string{}
		for _, s := range all {
			name, file, ok := strings.Cut(s, "=")
			if !ok {
				return fmt.Errorf("%q: it is ARCH=NAME, such as x64=shimx64.efi", s)
			}
			arch, err := pxe.ParseArch(name)
			if err != nil {
				return err
			}
			files[arch] = strings.TrimLeft(file, "/")
		}
		*to = files
		return nil
	})
}

// bootHostsValue returns a value that is a list of rules for machines, such as
// "52:54:00:12:34:56=ignore". If one part names the file of a machine and another part the form of
// its answers, both together are one rule.
func bootHostsValue(to *map[dhcp.MAC]pxe.Host) *value {
	return listValue(true, nil, func(all []string) error {
		hosts := map[dhcp.MAC]pxe.Host{}
		for _, s := range all {
			text, rule, ok := strings.Cut(s, "=")
			rule = strings.TrimLeft(rule, "/")
			if !ok || rule == "" {
				return fmt.Errorf("%q: it is MAC=FILE, or MAC=ignore, MAC=direct or MAC=redirect", s)
			}
			mac, err := dhcp.ParseMAC(text)
			if err != nil {
				return err
			}
			host := hosts[mac]
			if !addHostRule(&host, rule) {
				return fmt.Errorf("%v has two rules that exclude each other", mac)
			}
			hosts[mac] = host
		}
		*to = hosts
		return nil
	})
}

// addHostRule adds a rule for a machine. It returns false if the rule conflicts with earlier rules
// for that machine.
func addHostRule(host *pxe.Host, rule string) bool {
	before := *host
	switch rule {
	case "ignore":
		host.Ignore = true
		return before == pxe.Host{}
	case pxe.Direct.String():
		host.Form = pxe.Direct
	case pxe.Redirect.String():
		host.Form = pxe.Redirect
	default:
		host.File = rule
		return !before.Ignore && before.File == ""
	}
	return !before.Ignore && before.Form == pxe.AnyForm
}
