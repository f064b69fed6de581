package proxydhcp

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"syscall"
)

// networks returns this machine's IPv4 addresses on all interfaces, with the lengths of their
// networks' prefixes, by interface index. It asks the kernel only once. Package net asks once for
// each interface, and gets all addresses each time, which takes 0.3 s with 800 interfaces.
func networks([]net.Interface) (map[int][]netip.Prefix, error) {
	list, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_INET)
	if err != nil {
		return nil, os.NewSyscallError("list addresses by netlink", err)
	}
	messages, err := syscall.ParseNetlinkMessage(list)
	if err != nil {
		return nil, os.NewSyscallError("read addresses of netlink", err)
	}
	all := map[int][]netip.Prefix{}
	for _, m := range messages {
		if m.Header.Type != syscall.RTM_NEWADDR || len(m.Data) < syscall.SizeofIfAddrmsg {
			continue
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(&m)
		if err != nil {
			return nil, os.NewSyscallError("read an address of netlink", err)
		}
		// struct ifaddrmsg: family, length of the prefix, flags, scope, index.
		bits, index := int(m.Data[1]), int(binary.NativeEndian.Uint32(m.Data[4:]))
		for _, a := range attrs {
			if a.Attr.Type == syscall.IFA_LOCAL && len(a.Value) == net.IPv4len {
				all[index] = append(all[index], netip.PrefixFrom(netip.AddrFrom4([4]byte(a.Value)), bits))
			}
		}
	}
	return all, nil
}
