package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/proxydhcp"
	"github.com/haul-project/haul/pxe"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/tftpclient"
)

const doctorPXEHelp = `Ask this network as machines that boot would, and explain what they would get.

haul broadcasts a DHCP DISCOVER as each kind of machine does, and prints every answer:
which server gives an address, which one a boot file, and where servers contradict each
other. It asks port 4011 where firmware would, fetches the boot file, and says what the
machine would do next. It takes no address.

--as chooses the kinds: bios, x64, http-x64, arm64, http-arm64, ipxe, pi. It needs root.
The exit code is 1 if one of them would not boot.`

const doctorPXEExamples = `  sudo haul doctor pxe
  sudo haul doctor pxe --interface eth1 --as bios,x64
  sudo haul doctor pxe --mac 52:54:00:12:34:56 --json`

// maxBootFile bounds what is fetched of a boot file.
const maxBootFile = 256 << 20

// A bootDiagnosis is what one kind of machine would get.
type bootDiagnosis struct {
	Kind      string `json:"kind"`
	Interface string `json:"interface"`
	MAC       string `json:"mac"`

	Offers   []offerReport `json:"offers"`
	Problems []string      `json:"problems"` // each keeps the machine from booting, or is luck
	File     string        `json:"file,omitempty"`
	Bytes    int64         `json:"bytes,omitempty"`
	Next     string        `json:"next"`
}

// An offerReport is one answer.
type offerReport struct {
	Server  netip.Addr `json:"server"`
	Address string     `json:"address,omitempty"`
	Class   string     `json:"class,omitempty"`
	File    string     `json:"file,omitempty"`
	From    string     `json:"from,omitempty"` // the server of the file
	Form    string     `json:"form,omitempty"`
	Port    uint16     `json:"port"`
}

type doctorPXE struct {
	kinds     []string
	link, mac string
	wait      time.Duration
	noFetch   bool
	json      bool
}

func newDoctorPXE() *cobra.Command {
	d := doctorPXE{kinds: []string{"bios", "x64", "http-x64"}}
	cmd := &cobra.Command{
		Use:         "pxe",
		Short:       "Ask this network as machines that boot would",
		Long:        doctorPXEHelp,
		Example:     doctorPXEExamples,
		Args:        args(cobra.NoArgs),
		Annotations: more("", "serve boot"),
		RunE:        func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&d.kinds, "as", d.kinds, "ask as these `KINDS` of machines")
	flags.StringVar(&d.link, "interface", "", "ask by this `INTERFACE` (default: all)")
	flags.StringVar(&d.mac, "mac", "", "have the hardware address `MAC` (default: one that no card has)")
	flags.DurationVar(&d.wait, "timeout", 3*time.Second, "wait for answers for this `TIME`")
	flags.BoolVar(&d.noFetch, "no-fetch", false, "do not fetch boot files")
	flags.BoolVar(&d.json, "json", false, "print one JSON document")
	return cmd
}

// run asks as each kind on each interface.
func (d *doctorPXE) run(ctx context.Context, out io.Writer) error {
	if d.wait <= 0 {
		return failure.Usage.Errorf("--timeout %v: must be above 0", d.wait)
	}
	var kinds []proxydhcp.Kind
	for _, name := range d.kinds {
		k, err := proxydhcp.ParseKind(name)
		if err != nil {
			return failure.Usage.Errorf("--as: %w", err)
		}
		kinds = append(kinds, k)
	}
	mac := proxydhcp.RandomMAC()
	if d.mac != "" {
		var err error
		if mac, err = pxe.ParseMAC(d.mac); err != nil {
			return failure.Usage.Errorf("--mac: %w", err)
		}
	}
	var names []string
	if d.link != "" {
		names = []string{d.link}
	}
	links, err := proxydhcp.Interfaces(names)
	if err != nil {
		return failure.Usage.Errorf("--interface: %w", err)
	}
	var all []*bootDiagnosis
	ill := false
	for _, link := range links {
		for _, k := range kinds {
			one, err := d.diagnose(ctx, k, link, mac)
			if err != nil {
				return failure.Local.Errorf("ask as %s on %s: %w", k.Text, link.Name, err)
			}
			all, ill = append(all, one), ill || len(one.Problems) > 0
			if !d.json {
				one.write(out)
			}
		}
	}
	if d.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if err := e.Encode(all); err != nil {
			return failure.Local.Wrap(err)
		}
	}
	if ill {
		return errWouldNotBoot
	}
	return nil
}

// errWouldNotBoot says that a machine would not boot, or by luck alone.
var errWouldNotBoot = errors.New("not all kinds of machines would boot")

// diagnose asks as one kind of machine, and follows what it would do.
func (d *doctorPXE) diagnose(ctx context.Context, k proxydhcp.Kind, by proxydhcp.Interface, mac pxe.MAC) (*bootDiagnosis, error) {
	offers, err := proxydhcp.Ask(ctx, k, by, mac, d.wait)
	if err != nil {
		return nil, err
	}
	b := &bootDiagnosis{Kind: k.Text, Interface: by.Name, MAC: mac.String(), Problems: []string{}, Offers: []offerReport{}}
	for _, o := range offers {
		b.add(o, pxe.PortDHCP)
	}
	file := b.choose(k, offers)
	if file != nil && file.Redirects() && !k.HTTP() && k.Name != "ipxe" && !file.Menu {
		answers, err := proxydhcp.AskBoot(ctx, k, by, mac, file.Server, d.wait)
		if err != nil {
			return nil, err
		}
		for _, o := range answers {
			b.add(o, pxe.PortPXE)
		}
		switch {
		case len(answers) > 0:
			file = &answers[0]
		case file.File == "":
			b.problem("%v does not answer on port %d, where the machine asks for its boot file", file.Server, pxe.PortPXE)
			file = nil
		}
	}
	if file == nil || len(b.Problems) > 0 && file.File == "" {
		b.Next = "it does not boot from the network, and continues with its next boot device"
		return b, nil
	}
	b.follow(ctx, k, file, d.noFetch)
	return b, nil
}

func (b *bootDiagnosis) problem(format string, args ...any) {
	b.Problems = append(b.Problems, fmt.Sprintf(format, args...))
}

func (b *bootDiagnosis) add(o proxydhcp.Offer, port uint16) {
	r := offerReport{Server: o.Server, Class: o.Class, File: o.File, Port: port}
	if o.Address.IsValid() {
		r.Address = o.Address.String()
	}
	if o.File != "" {
		r.From = o.Next.String()
	}
	if o.Class == "PXEClient" && port == pxe.PortDHCP {
		r.Form = pxe.Redirect.String()
		if o.Direct {
			r.Form = pxe.Direct.String()
		}
	}
	b.Offers = append(b.Offers, r)
}

// choose returns the answer whose boot file the machine takes, or nil, and notes what is
// wrong. Firmware takes an address from one server, and the file from the same one or from
// a ProxyDHCP server; which of several is luck.
func (b *bootDiagnosis) choose(k proxydhcp.Kind, offers []proxydhcp.Offer) (file *proxydhcp.Offer) {
	addresses := 0
	for i := range offers {
		o := &offers[i]
		if o.Address.IsValid() {
			addresses++
		}
		fits := o.File != "" || o.Class == "PXEClient" && !o.Direct || o.Menu
		if k.HTTP() {
			fits = o.Class == "HTTPClient" && o.File != ""
		} else if o.Class == "HTTPClient" {
			fits = false
		}
		switch {
		case !fits:
		case file == nil:
			file = o
		case o.File != file.File || o.Next != file.Next:
			b.problem("%v and %v contradict each other: the machine gets %s or %s", file.Server, o.Server, shownFile(file), shownFile(o))
		}
	}
	if addresses == 0 {
		b.problem("no DHCP server gives an address")
	}
	if file == nil {
		b.problem("no server names a boot file for it")
	}
	return file
}

func shownFile(o *proxydhcp.Offer) string {
	if o.File == "" {
		return "what " + o.Server.String() + " says on port 4011"
	}
	return o.File + " from " + o.Next.String()
}

// follow fetches the boot file, and says what the machine does with it.
func (b *bootDiagnosis) follow(ctx context.Context, k proxydhcp.Kind, o *proxydhcp.Offer, noFetch bool) {
	b.File = o.File
	if o.File == "" { // as for a Raspberry Pi
		b.Next = fmt.Sprintf("it asks %v by TFTP for names of its own", o.Next)
		return
	}
	if !strings.Contains(o.File, "://") {
		b.File = "tftp://" + o.Next.String() + "/" + strings.TrimPrefix(o.File, "/")
	}
	if noFetch {
		b.Next = "it fetches " + b.File
		return
	}
	var err error
	if b.Bytes, err = fetchBootFile(ctx, b.File); err != nil {
		b.problem("%s cannot be fetched: %v", b.File, err)
		b.Next = "it fails to load its boot file, and continues with its next boot device"
		return
	}
	b.Next = "it starts " + b.File
	if k.Name == "ipxe" {
		b.Next = "it runs the script " + b.File
	}
}

// fetchBootFile fetches a file, and returns its size.
func fetchBootFile(ctx context.Context, url string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if strings.HasPrefix(url, "tftp://") {
		target, err := tftpclient.ParseURL(url)
		if err != nil {
			return 0, err
		}
		c := &tftpclient.Client{}
		defer c.Wait()
		counted := &countedUpload{}
		_, err = c.Get(ctx, target, func(int64) (store.Upload, error) { return counted, nil })
		return counted.size, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	transport := &http.Transport{DialContext: (&net.Dialer{}).DialContext, DisableKeepAlives: true} // firmware uses no proxy
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, errors.New(resp.Status)
	}
	n, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxBootFile+1))
	if n > maxBootFile {
		return 0, errBootFileSize
	}
	return n, err
}

var errBootFileSize = fmt.Errorf("it has more than %s", console.FormatSize(maxBootFile))

// A countedUpload keeps the size of a file alone.
type countedUpload struct{ size int64 }

func (u *countedUpload) WriteAt(p []byte, off int64) (int, error) {
	if u.size = max(u.size, off+int64(len(p))); u.size > maxBootFile {
		return 0, errBootFileSize
	}
	return len(p), nil
}

func (u *countedUpload) Truncate(size int64) error { u.size = size; return nil }
func (u *countedUpload) Commit() error             { return nil }
func (u *countedUpload) Close() error              { return nil }

// write prints the diagnosis for people.
func (b *bootDiagnosis) write(out io.Writer) {
	var s strings.Builder
	fmt.Fprintf(&s, "%s on %s, as %s:\n", b.Kind, b.Interface, b.MAC)
	for _, o := range b.Offers {
		var says []string
		if o.Address != "" {
			says = append(says, "gives the address "+o.Address)
		}
		if o.File != "" {
			says = append(says, "names the boot file "+console.Visible(o.File)+" of "+o.From)
		}
		switch {
		case o.Form == pxe.Redirect.String():
			says = append(says, "sends the machine to port 4011")
		case len(says) == 0:
			says = append(says, "says nothing about a boot file")
		}
		at := ""
		if o.Port == pxe.PortPXE {
			at = " on port 4011"
		}
		fmt.Fprintf(&s, "  %v%s %s\n", o.Server, at, strings.Join(says, ", "))
	}
	if len(b.Offers) == 0 {
		s.WriteString("  no answer\n")
	}
	for _, p := range b.Problems {
		fmt.Fprintf(&s, "  problem: %s\n", console.Visible(p))
	}
	if b.Bytes > 0 {
		fmt.Fprintf(&s, "  fetched %s: %s\n", console.Visible(b.File), console.FormatBytes(b.Bytes))
	}
	fmt.Fprintf(&s, "  next: %s\n", console.Visible(b.Next))
	fmt.Fprint(out, s.String())
}
