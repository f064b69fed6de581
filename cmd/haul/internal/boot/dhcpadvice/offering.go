package dhcpadvice

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/haul-project/haul/internal/dhcp"
	"github.com/haul-project/haul/pxe"
)

// An Offering is what some clients get by [pxe.Rules]. A DHCP server that says the same makes
// them boot without this one: see [Offerings].
type Offering struct {
	MAC dhcp.MAC // of the clients; zero for all whose MAC no other Offering has

	// Class is that of the clients; PXEClient stands for UBoot as well. With NoClass the
	// clients get nothing.
	Class pxe.Class
	Arch  pxe.Arch // of the clients; UnknownArch for all

	// NoHTTP marks what iPXE gets that cannot fetch by HTTP. Without such an Offering that
	// has no other.
	NoHTTP bool

	File        string // option 67: a name on this server, or a URL; empty for none
	TFTPServer  string // option 66
	VendorClass string // option 60; empty if the clients need none from a DHCP server
	Vendor      []byte // option 43, in the same way
}

// Offerings returns what clients of each kind get from a server with this address, as a
// [pxe.Server] answers them: what single machines get first, in the order of their MACs. A
// machine that gets what all others get is left out.
//
// A Server sends iPXE that lacks a feature to a better one first. Its Offering is what it gets
// after that, as a DHCP server does not remember whom it sent where.
func Offerings(r pxe.Rules, server dhcp.Addr) ([]Offering, error) {
	s, err := pxe.NewServer(r)
	if err != nil {
		return nil, err
	}
	ask := asker{Server: s, addr: server}
	var common, all []Offering
	if !r.KnownOnly {
		common = ask.all(strangerMAC(r))
	}
	same := func(a, b Offering) bool {
		return a.Class == b.Class && a.Arch == b.Arch && a.NoHTTP == b.NoHTTP && a.File == b.File && a.TFTPServer == b.TFTPServer && a.VendorClass == b.VendorClass && bytes.Equal(a.Vendor, b.Vendor)
	}
	for _, mac := range slices.SortedFunc(maps.Keys(r.Hosts), func(a, b dhcp.MAC) int { return bytes.Compare(a.Bytes(), b.Bytes()) }) {
		own := ask.all(mac)
		if slices.EqualFunc(own, common, same) {
			continue
		}
		if len(own) == 0 {
			own = []Offering{{}}
		}
		for _, o := range own {
			o.MAC = mac
			all = append(all, o)
		}
	}
	return append(all, common...), nil
}

// strangerMAC returns a MAC for which there is no rule.
func strangerMAC(r pxe.Rules) dhcp.MAC {
	for n := uint32(0); ; n++ {
		mac := dhcp.MakeMAC(binary.BigEndian.AppendUint32([]byte{2, 0}, n))
		if _, known := r.Hosts[mac]; !known {
			return mac
		}
	}
}

// An asker asks a server as machines of all kinds.
type asker struct {
	*pxe.Server
	addr dhcp.Addr
	now  time.Time
}

// all returns what a machine gets if it is of one kind after the other.
func (q *asker) all(mac dhcp.MAC) (all []Offering) {
	starts := dhcp.AppendOption(nil, dhcp.FeatureEFI, []byte{1})
	without := q.class(pxe.IPXE, starts, mac)
	with := q.class(pxe.IPXE, dhcp.AppendOption(starts, dhcp.FeatureHTTP, []byte{1}), mac)
	if len(with) > 0 && len(without) > 0 && with[0].File != without[0].File {
		without[0].NoHTTP = true
		all = without
	}
	all = append(all, with...)
	for _, class := range []pxe.Class{pxe.Pi, pxe.HTTPClient, pxe.PXEClient} {
		all = append(all, q.class(class, nil, mac)...)
	}
	return all
}

// class returns what a machine of a class gets, by its architecture. features are those of
// iPXE.
func (q *asker) class(class pxe.Class, features []byte, mac dhcp.MAC) (all []Offering) {
	for arch := range pxe.NumArchs {
		if (class == pxe.Pi) != (arch == pxe.RaspberryPi) {
			continue // only a Raspberry Pi has its architecture
		}
		o, ok := q.ask(class, arch, features, mac)
		switch {
		case !ok:
		case arch == pxe.UnknownArch || class == pxe.Pi:
			o.Arch = pxe.UnknownArch
			return []Offering{o} // whatever it is
		default:
			all = append(all, o)
		}
	}
	return all
}

// ask asks as one machine.
func (q *asker) ask(class pxe.Class, arch pxe.Arch, features []byte, mac dhcp.MAC) (o Offering, ok bool) {
	h := dhcp.Header{Op: dhcp.BootRequest, HType: 1}
	h.HLen = uint8(copy(h.HardwareAddr[:], mac.Bytes()))
	number := uint16(math.MaxUint16) // unknown
	if numbers := arch.Numbers(); len(numbers) > 0 {
		number = numbers[0]
	}
	var a pxe.Answer
	// The second answer counts: the first one may send iPXE to a better one.
	for h.XID = range uint32(2) {
		request := dhcp.AppendOption(dhcp.AppendHeader(nil, &h), dhcp.OptionMessageType, []byte{dhcp.Discover})
		request = dhcp.AppendOption(request, dhcp.OptionArchitecture, binary.BigEndian.AppendUint16(nil, number))
		request = dhcp.AppendOption(request, dhcp.OptionVendorClass, []byte(class.VendorClass()))
		if class == pxe.IPXE {
			request = dhcp.AppendOption(request, dhcp.OptionIPXE, features)
		}
		q.now = q.now.Add(time.Second) // within the bounds of a second
		a = q.Handle(q.now, dhcp.AppendEnd(request, 0), pxe.Arrival{Port: dhcp.PortServer, FromPort: dhcp.PortClient, Server: q.addr}, nil)
	}
	if a.Reason != pxe.Answered {
		return o, false
	}
	p, err := dhcp.Parse(a.Packet)
	if err != nil {
		return o, false
	}
	file, _ := p.Option(dhcp.OptionBootFile)
	from, _ := p.Option(dhcp.OptionTFTPServer)
	o = Offering{Class: class, Arch: arch, File: string(file), TFTPServer: string(from)}
	if class == pxe.Pi || class == pxe.HTTPClient {
		vendorClass, _ := p.Option(dhcp.OptionVendorClass)
		o.VendorClass = string(vendorClass)
		o.Vendor, _ = p.Option(dhcp.OptionVendor)
	}
	return o, true
}
