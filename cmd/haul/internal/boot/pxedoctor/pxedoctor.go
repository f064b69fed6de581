// Package pxedoctor sends requests to a network as a booting machine does, follows the answers as
// firmware does, and reports what the machine would do next. It implements "haul doctor pxe".
//
// pxedoctor.go sends the requests and evaluates the answers. fetch.go fetches boot files.
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

// A Diagnosis is the result for one kind of machine.
type Diagnosis struct {
	Kind      string `json:"kind"`
	Interface string `json:"interface"`
	MAC       string `json:"mac"`

	Offers   []Offer  `json:"offers"`
	Problems []string `json:"problems"` // each problem prevents the machine from booting, or makes booting depend on chance
	File     string   `json:"file,omitempty"`
	Bytes    int64    `json:"bytes,omitempty"` // size of the file; 0 if it was not fetched
	Next     string   `json:"next"`
}

// An Offer is an answer from a server.
type Offer struct {
	Server  netip.Addr `json:"server"`
	Address string     `json:"address,omitempty"` // address that the server assigns to the machine
	Class   string     `json:"class,omitempty"`   // "PXEClient" or "HTTPClient"
	File    string     `json:"file,omitempty"`
	From    string     `json:"from,omitempty"` // server that has the file
	Form    string     `json:"form,omitempty"` // form of an answer to a PXE client: see [pxe.Form]
	Port    uint16     `json:"port"`           // port at which the server answered: 67 or 4011
}

// A Config says how to send the requests.
type Config struct {
	By    proxydhcp.Interface // interface to send requests on
	MAC   dhcp.MAC            // MAC of the imitated machine
	Wait  time.Duration       // how long to wait for answers to each request
	Fetch bool                // fetch the boot file too
}

// Ask sends requests as one kind of machine, and follows the steps that the machine would take. It
// returns an error if this computer cannot send the requests: that requires root.
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
		case err != nil: // for example, there is no route to the server
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

// asksAgain reports whether a machine must ask port 4011 for the file after this offer.
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

// choose returns the answer whose boot file the machine would use, or nil, and records problems.
// Firmware takes its address from one server, and its file from the same server or from a ProxyDHCP
// server. If there are several candidates, chance decides.
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

// namesFile reports whether a machine can get a boot file by an offer: at once, after it has asked
// port 4011, or after it has shown a menu.
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

// chooseBoot returns the answer from port 4011 that the machine would use. If there is no answer,
// the machine uses the file of the offer, if the offer names one.
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

// follow records what the machine does with the boot file of an answer. If fetches is set, it
// fetches the file.
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
