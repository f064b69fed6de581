package proxydhcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
)

const (
	clientPort = 68

	// askAgain is how long Ask waits for an answer before it repeats a request, because the request
	// or the answer may have been lost.
	askAgain = time.Second

	// maxOffers is the number of answers after which Ask stops waiting for more. A network has only
	// a few servers.
	maxOffers = 64
)

// An Offer is an answer that a machine would get from a server.
type Offer struct {
	Server  netip.Addr     // server that the answer names in option 54, or else its source address
	From    netip.AddrPort // source address and port of the answer
	Address netip.Addr     // address that the answer assigns to the machine; zero if it assigns no address
	Next    netip.Addr     // server of the boot file: siaddr, option 66, or the source address
	File    string         // name or URL of the boot file; "" if the answer names no file
	Class   string         // "PXEClient", "HTTPClient", or ""
	// Direct says that the machine must take the file of this answer: suboption 6 of option 43 has
	// bit 3 set (PXE 2.1, table 2-1).
	Direct bool
	Menu   bool // option 43 contains a boot menu
}

// Boots reports whether the answer is meant for boot clients.
func (o *Offer) Boots() bool { return o.Class != "" || o.File != "" }

// Redirects reports whether firmware must ask port 4011 of the server for its file.
func (o *Offer) Redirects() bool { return o.Class == "PXEClient" && !o.Direct }

// Ask broadcasts a DISCOVER on interface `by`, as a machine of kind k would, and returns the
// answers that arrive within the time `wait`. It requires root, or CAP_NET_BIND_SERVICE; while a
// DHCP client is running, it requires CAP_NET_RAW too.
func Ask(ctx context.Context, k Kind, by Interface, mac dhcp.MAC, wait time.Duration) ([]Offer, error) {
	s, err := openSocket(ctx, clientPort, true)
	if err != nil {
		return nil, err
	}
	defer s.close()
	xid := rand.Uint32()
	d := departure{from: by.Prefixes[0].Addr(), to: netip.AddrPortFrom(broadcast, dhcp.PortServer), index: by.Index}
	packet := k.appendRequest(nil, dhcp.Discover, mac, xid, dhcp.Addr{})
	send := func() error { return s.sendOne(packet, d) }
	return collect(ctx, s, wait, maxOffers, send, func(p *dhcp.Packet, came arrival) bool {
		return came.index == by.Index && p.XID == xid && p.MAC() == mac && p.Type() == dhcp.Offer
	})
}

// AskBoot asks port 4011 of a server for the boot file, as a machine does after a redirect. It uses
// this computer's own address. If the server does not answer, the result is empty.
func AskBoot(ctx context.Context, k Kind, by Interface, mac dhcp.MAC, server netip.Addr, wait time.Duration) ([]Offer, error) {
	own := by.address(server)
	var lc net.ListenConfig
	c, err := lc.ListenPacket(ctx, "udp4", net.JoinHostPort(own.String(), "0"))
	if err != nil {
		return nil, err
	}
	s, err := newSocket(c, 0, false)
	if err != nil {
		return nil, err
	}
	defer s.close()
	xid := rand.Uint32()
	packet := k.appendRequest(nil, dhcp.Request, mac, xid, own.As4())
	d := departure{from: own, to: netip.AddrPortFrom(server, dhcp.PortPXE)}
	if by.contains(server) {
		// Without the index, a packet to a server on this computer would go through the loopback
		// interface.
		d.index = by.Index
	}
	send := func() error { return s.sendOne(packet, d) }
	return collect(ctx, s, wait, 1, send, func(p *dhcp.Packet, _ arrival) bool {
		return p.XID == xid && p.MAC() == mac && p.Type() == dhcp.Ack
	})
}

// collect sends a packet, and collects matching answers until the time `wait` is over or `limit`
// answers have arrived. Until the first answer, it repeats the packet. After that it does not,
// because a server may answer the same machine differently the second time.
func collect(ctx context.Context, s *socket, wait time.Duration, limit int, send func() error, fits func(*dhcp.Packet, arrival) bool) (offers []Offer, err error) {
	again := time.Now()
	end := again.Add(wait)
	in := newInbox(1)
	defer context.AfterFunc(ctx, s.close)()
	for len(offers) < limit {
		until := end
		if len(offers) == 0 {
			if now := time.Now(); !now.Before(again) {
				if err := send(); err != nil {
					return nil, fmt.Errorf("send a request: %w", err)
				}
				again = now.Add(askAgain)
			}
			until = earlier(again, end)
		}
		if err := s.conn.SetReadDeadline(until); err != nil && ctx.Err() == nil {
			return nil, err
		}
		packets, err := s.receive(in)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(end):
			return offers, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case err != nil:
			return nil, err
		}
		p, err := dhcp.Parse(packets[0].packet)
		if err != nil || p.Op != dhcp.BootReply || !fits(&p, packets[0].arrival) {
			continue
		}
		if o := readOffer(&p, packets[0].peer); !slices.Contains(offers, o) {
			offers = append(offers, o)
		}
	}
	return offers, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// readOffer extracts the values of an answer that a machine uses.
func readOffer(p *dhcp.Packet, from netip.AddrPort) Offer {
	o := Offer{Server: from.Addr(), From: from, Next: from.Addr()}
	addr := func(a dhcp.Addr) (netip.Addr, bool) { return netip.AddrFrom4(a), a != dhcp.Addr{} }
	if v, ok := p.Option(dhcp.OptionServer); ok && len(v) == 4 {
		o.Server = netip.AddrFrom4([4]byte(v))
	}
	if a, ok := addr(p.YourAddr); ok {
		o.Address = a
	}
	if v, ok := p.Option(dhcp.OptionTFTPServer); ok {
		if a, err := netip.ParseAddr(text(v)); err == nil && a.Is4() {
			o.Next = a
		}
	}
	if a, ok := addr(p.ServerAddr); ok {
		o.Next = a
	}
	o.File = text(p.File[:])
	if v, ok := p.Option(dhcp.OptionBootFile); ok {
		o.File = text(v)
	}
	class, _ := p.Option(dhcp.OptionVendorClass)
	for _, known := range []string{"PXEClient", "HTTPClient"} {
		if bytes.HasPrefix(class, []byte(known)) {
			o.Class = known
		}
	}
	vendor, _ := p.Option(dhcp.OptionVendor)
	o.Direct, o.Menu = readVendor(vendor)
	return o
}

// readVendor parses the PXE options in option 43.
func readVendor(v []byte) (direct, menu bool) {
	for len(v) >= 2 && v[0] != dhcp.OptionEnd {
		if v[0] == dhcp.OptionPad {
			v = v[1:]
			continue
		}
		end := 2 + int(v[1])
		if end > len(v) {
			return direct, menu
		}
		switch {
		case v[0] == 6 && v[1] == 1: // PXE_DISCOVERY_CONTROL
			direct = v[2]&8 != 0
		case v[0] == 9: // PXE_BOOT_MENU
			menu = true
		}
		v = v[end:]
	}
	return direct, menu
}

// RandomMAC returns a random, locally administered hardware address, which no network card has.
func RandomMAC() dhcp.MAC {
	n := rand.Uint64()
	return dhcp.MakeMAC([]byte{0x02, byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24), byte(n >> 32)})
}
