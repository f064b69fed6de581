package dhcpadvice

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
)

// An Offering holds the options that certain clients get under [pxe.Rules]. If a DHCP server offers
// the same options, the clients can boot without this server: see [Offerings].
type Offering struct {
	// MAC is the MAC of the client. If it is zero, the Offering is for all clients whose MAC has no
	// Offering of its own.
	MAC dhcp.MAC

	// Class is the class of the clients. PXEClient includes UBoot. NoClass means that the clients
	// get nothing.
	Class pxe.Class
	Arch  pxe.Arch // architecture of the clients; UnknownArch means all

	// NoHTTP means that the Offering is for iPXE without HTTP. If NoHTTP is not set in any
	// Offering, such an iPXE gets the same options as every other iPXE.
	NoHTTP bool

	File        string // option 67: a name on this server, or a URL; "" if there is no file
	TFTPServer  string // option 66: the server of the file
	VendorClass string // option 60; "" if the clients do not need it from a DHCP server
	Vendor      []byte // option 43; nil if the clients do not need it from a DHCP server
}

// Offerings returns the options that clients of each kind get from a [pxe.Server] with this
// address. The offerings for single machines come first, in the order of their MACs. If a machine
// gets the same options as all others, it has no Offering of its own.
//
// A Server first sends an iPXE that lacks a feature to a better iPXE. A DHCP server cannot do that,
// because it does not remember which clients it has redirected. So the Offering holds the options
// that such an iPXE gets after the redirect.
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

// strangerMAC returns a MAC that has no rule in r.
func strangerMAC(r pxe.Rules) dhcp.MAC {
	for n := uint32(0); ; n++ {
		mac := dhcp.MakeMAC(binary.BigEndian.AppendUint32([]byte{2, 0}, n))
		if _, known := r.Hosts[mac]; !known {
			return mac
		}
	}
}

// An asker sends requests to a pxe.Server as if it were machines of all kinds.
type asker struct {
	*pxe.Server
	addr dhcp.Addr
	now  time.Time
}

// all returns the offerings for a MAC, by sending a request as each kind of machine.
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

// class returns the offerings for machines of a class, for each architecture. features holds the
// features that iPXE sends.
func (q *asker) class(class pxe.Class, features []byte, mac dhcp.MAC) (all []Offering) {
	for arch := range pxe.NumArchs {
		if (class == pxe.Pi) != (arch == pxe.RaspberryPi) {
			continue // the class Pi and the architecture RaspberryPi occur only together
		}
		o, ok := q.ask(class, arch, features, mac)
		switch {
		case !ok:
		case arch == pxe.UnknownArch || class == pxe.Pi:
			o.Arch = pxe.UnknownArch
			return []Offering{o} // the options are the same for all architectures, so one Offering is enough
		default:
			all = append(all, o)
		}
	}
	return all
}

// ask sends requests as one kind of machine, and returns the offering.
func (q *asker) ask(class pxe.Class, arch pxe.Arch, features []byte, mac dhcp.MAC) (o Offering, ok bool) {
	h := dhcp.Header{Op: dhcp.BootRequest, HType: 1}
	h.HLen = uint8(copy(h.HardwareAddr[:], mac.Bytes()))
	number := uint16(math.MaxUint16) // not the number of any architecture
	if numbers := arch.Numbers(); len(numbers) > 0 {
		number = numbers[0]
	}
	var a pxe.Answer
	// Use the second answer, because the first one may redirect iPXE to a better iPXE.
	for h.XID = range uint32(2) {
		request := dhcp.AppendOption(dhcp.AppendHeader(nil, &h), dhcp.OptionMessageType, []byte{dhcp.Discover})
		request = dhcp.AppendOption(request, dhcp.OptionArchitecture, binary.BigEndian.AppendUint16(nil, number))
		request = dhcp.AppendOption(request, dhcp.OptionVendorClass, []byte(class.VendorClass()))
		if class == pxe.IPXE {
			request = dhcp.AppendOption(request, dhcp.OptionIPXE, features)
		}
		q.now = q.now.Add(time.Second) // so that the server's limits per second do not apply
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
