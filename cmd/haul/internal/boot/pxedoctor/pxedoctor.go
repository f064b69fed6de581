// Package pxedoctor sends requests to a network in the same way as a booting machine, follows the
// answers as firmware does, and reports what the machine would do next. It implements "haul doctor
// pxe".
//
// The files from top to bottom: pxedoctor.go sends requests and evaluates the answers; fetch.go
// fetches boot files.
package pxedoctor

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/proxydhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
)

// A Diagnosis is the outcome for one kind of machine.
type Diagnosis struct {
	Kind      string `json:"kind"`
	Interface string `json:"interface"`
	MAC       string `json:"mac"`

	Offers   []Offer  `json:"offers"`
	Problems []string `json:"problems"` // each prevents the machine from booting, or means that it boots only by chance
	File     string   `json:"file,omitempty"`
	Bytes    int64    `json:"bytes,omitempty"` // bytes of the file; 0 if it was not fetched
	Next     string   `json:"next"`
}

// An Offer is one answer.
type Offer struct {
	Server  netip.Addr `json:"server"`
	Address string     `json:"address,omitempty"` // the address that the server gives to the machine
	Class   string     `json:"class,omitempty"`   // "PXEClient" or "HTTPClient"
	File    string     `json:"file,omitempty"`
	From    string     `json:"from,omitempty"` // the server that has the file
	Form    string     `json:"form,omitempty"` // form of an offer to a PXE client: see [pxe.Form]
	Port    uint16     `json:"port"`           // port of the server: 67 or 4011
}

// A Config says how to send the requests.
type Config struct {
	By    proxydhcp.Interface // the interface to send requests on
	MAC   dhcp.MAC            // MAC of the machine
	Wait  time.Duration       // how long to wait for the answers to each request
	Fetch bool                // whether to fetch the boot file
}

// Ask sends requests as one kind of machine, and follows the steps that the machine would take. It
// returns an error if this computer could not send the requests, which requires root.
func (c *Config) Ask(ctx context.Context, k proxydhcp.Kind) (*Diagnosis, error) {
	offers, err := proxydhcp.Ask(ctx, k, c.By, c.MAC, c.Wait)
	if err != nil {
		return nil, err
	}
	d := &Diagnosis{Kind: k.Text, Interface: c.By.Name, MAC: c.MAC.String(), Problems: []string{}, Offers: []Offer{}}
	d.add(offers, dhcp.PortServer)
	file := d.choose(k, offers)
	if file != nil && asksAgain(k, file) {
		answers, err := proxydhcp.AskBoot(ctx, k, c.By, c.MAC, file.Server, c.Wait)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, err
		case err != nil: // for example, because there is no route to it
			d.problem("%v cannot be asked on port %d: %v", file.Server, dhcp.PortPXE, err)
		}
		d.add(answers, dhcp.PortPXE)
		file = d.chooseBoot(file, answers)
	}
	if file == nil || len(d.Problems) > 0 && file.File == "" {
		d.Next = "it does not boot from the network, and continues with its next boot device"
		return d, nil
	}
	d.follow(ctx, k, file, c.Fetch)
	return d, nil
}

// asksAgain reports whether a machine asks port 4011 for the file of an offer.
func asksAgain(k proxydhcp.Kind, o *proxydhcp.Offer) bool {
	return o.Redirects() && !k.HTTP() && !k.IPXE() && !o.Menu
}

func (d *Diagnosis) problem(format string, args ...any) {
	d.Problems = append(d.Problems, fmt.Sprintf(format, args...))
}

func (d *Diagnosis) add(offers []proxydhcp.Offer, port uint16) {
	for _, o := range offers {
		r := Offer{Server: o.Server, Class: o.Class, File: o.File, Port: port}
		if o.Address.IsValid() {
			r.Address = o.Address.String()
		}
		if o.File != "" {
			r.From = o.Next.String()
		}
		if o.Class == "PXEClient" && port == dhcp.PortServer {
			r.Form = pxe.Redirect.String()
			if o.Direct {
				r.Form = pxe.Direct.String()
			}
		}
		d.Offers = append(d.Offers, r)
	}
}

// choose returns the answer whose boot file the machine uses, or nil, and records problems.
// Firmware takes an address from one server, and the file from the same server or from a ProxyDHCP
// server. If several servers could be chosen, the choice depends on chance.
func (d *Diagnosis) choose(k proxydhcp.Kind, offers []proxydhcp.Offer) (file *proxydhcp.Offer) {
	addresses := 0
	for i := range offers {
		o := &offers[i]
		if o.Address.IsValid() {
			addresses++
		}
		switch {
		case !namesFile(k, o):
		case file == nil:
			file = o
		case o.File != file.File || o.Next != file.Next:
			d.problem("%v and %v contradict each other: the machine gets %s or %s", file.Server, o.Server, shownFile(file), shownFile(o))
		}
	}
	if addresses == 0 {
		d.problem("no DHCP server gives an address")
	}
	if file == nil {
		d.problem("no server names a boot file for it")
	}
	return file
}

// namesFile reports whether a machine gets a boot file from an offer, possibly after it has asked
// port 4011 or shown a menu.
func namesFile(k proxydhcp.Kind, o *proxydhcp.Offer) bool {
	if k.HTTP() {
		return o.Class == "HTTPClient" && o.File != ""
	}
	return o.Class != "HTTPClient" && (o.File != "" || o.Redirects() || o.Menu)
}

func shownFile(o *proxydhcp.Offer) string {
	if o.File == "" {
		return "what " + o.Server.String() + " says on port 4011"
	}
	return o.File + " from " + o.Next.String()
}

// chooseBoot returns the answer from port 4011 that the machine uses. If there is no answer, the
// machine uses the file of the offer, if the offer contains one.
func (d *Diagnosis) chooseBoot(offer *proxydhcp.Offer, answers []proxydhcp.Offer) *proxydhcp.Offer {
	switch {
	case len(answers) > 0:
		return &answers[0]
	case offer.File != "":
		return offer
	}
	d.problem("%v does not answer on port %d, where the machine asks for its boot file", offer.Server, dhcp.PortPXE)
	return nil
}

// follow fetches the boot file of an answer if fetches is set, and records what the machine does
// with the file.
func (d *Diagnosis) follow(ctx context.Context, k proxydhcp.Kind, o *proxydhcp.Offer, fetches bool) {
	d.File = o.File
	switch {
	case d.File == "" && o.Menu && k.Name != "pi":
		d.Next = fmt.Sprintf("it shows the boot menu of %v", o.Server)
		return
	case d.File == "" && k.Name != "pi":
		d.problem("%v names no boot file", o.Server)
		d.Next = "it continues with its next boot device"
		return
	case d.File == "":
		d.Next = fmt.Sprintf("it asks %v by TFTP for names of its own", o.Next)
		return
	case !strings.Contains(d.File, "://"):
		d.File = (&url.URL{Scheme: "tftp", Host: o.Next.String(), Path: "/" + strings.TrimPrefix(d.File, "/")}).String()
	}
	if !fetches {
		d.Next = "it fetches " + d.File
		return
	}
	n, err := fetch(ctx, d.File)
	if err != nil {
		d.problem("%s cannot be fetched: %v", d.File, err)
		d.Next = "it fails to load its boot file, and continues with its next boot device"
		return
	}
	d.Bytes, d.Next = n, "it starts "+d.File
	if k.IPXE() {
		d.Next = "it runs the script " + d.File
	}
}
