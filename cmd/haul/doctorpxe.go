package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/proxydhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxedoctor"
	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

const doctorPXEHelp = `Ask this network as machines that boot would, and explain what they would get.

haul broadcasts a DHCP DISCOVER as each kind of machine does, and prints every answer:
which server gives an address, which one a boot file, and where servers contradict each
other. It asks port 4011 where firmware would, fetches the boot file, and says what the
machine would do next. It takes no address.

--as chooses the kinds: bios, x64, http-x64, arm64, http-arm64, ipxe, pi. It needs root.
The exit code is 1 if one of them would not boot.`

const doctorPXEExamples = `  haul doctor pxe
  haul doctor pxe --interface eth1 --as bios,x64
  haul doctor pxe --mac 52:54:00:12:34:56 --json`

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
		Args:        commandline.Args(cobra.NoArgs),
		Annotations: commandline.More("", "serve boot"),
		RunE:        func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&d.kinds, "as", d.kinds, "ask as these `KINDS` of machines")
	flags.StringVar(&d.link, "interface", "", "ask by this `INTERFACE` (default: all)")
	flags.StringVar(&d.mac, "mac", "", "have the hardware address `MAC` (default: one that no card has)")
	// The default is longer than 3 s, because dnsmasq takes 3 s to check whether an address that it
	// has not assigned yet is free.
	flags.DurationVar(&d.wait, "timeout", 5*time.Second, "wait for answers for this `TIME`")
	flags.BoolVar(&d.noFetch, "no-fetch", false, "do not fetch boot files")
	flags.BoolVar(&d.json, "json", false, "print one JSON document")
	return cmd
}

// run sends requests as each kind of machine on each interface.
func (d *doctorPXE) run(ctx context.Context, out io.Writer) error {
	if d.wait <= 0 {
		return failure.Usage.Errorf("--timeout %v: must be above 0", d.wait)
	}
	if len(d.kinds) == 0 {
		return failure.Usage.Errorf("--as names no kind of machine, such as bios")
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
		if mac, err = dhcp.ParseMAC(d.mac); err != nil {
			return failure.Usage.Errorf("--mac: %w", err)
		}
	}
	var names []string
	if d.link != "" {
		names = []string{d.link}
	}
	links, err := proxydhcp.Interfaces(names)
	switch {
	case err != nil && len(names) > 0:
		return failure.Usage.Errorf("--interface: %w", err)
	case err != nil:
		return failure.Local.Wrap(err)
	case len(names) == 0:
		links = slices.DeleteFunc(links, func(l proxydhcp.Interface) bool { return !l.Broadcasts })
	}
	if len(links) == 0 {
		return failure.Local.Errorf("no network interface takes broadcasts; name one with --interface")
	}
	var all []*pxedoctor.Diagnosis
	ill := false
	for _, link := range links {
		asker := pxedoctor.Config{By: link, MAC: mac, Wait: d.wait, Fetch: !d.noFetch}
		for _, k := range kinds {
			one, err := asker.Ask(ctx, k)
			if err != nil {
				return failure.Local.Errorf("ask as %s on %s: %w", k.Text, link.Name, err)
			}
			all, ill = append(all, one), ill || len(one.Problems) > 0
			if !d.json {
				writeDiagnosis(out, one)
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

// errWouldNotBoot reports that a machine would not boot, or would boot only by chance.
var errWouldNotBoot = errors.New("not all kinds of machines would boot")

// writeDiagnosis prints a diagnosis as text for people.
func writeDiagnosis(out io.Writer, d *pxedoctor.Diagnosis) {
	var s strings.Builder
	fmt.Fprintf(&s, "%s on %s, as %s:\n", d.Kind, d.Interface, d.MAC)
	for _, o := range d.Offers {
		fmt.Fprintf(&s, "  %s\n", offerText(o))
	}
	if len(d.Offers) == 0 {
		s.WriteString("  no answer\n")
	}
	for _, p := range d.Problems {
		fmt.Fprintf(&s, "  problem: %s\n", console.Visible(p))
	}
	if d.Bytes > 0 {
		fmt.Fprintf(&s, "  fetched %s: %s\n", console.Visible(d.File), console.FormatBytes(d.Bytes))
	}
	fmt.Fprintf(&s, "  next: %s\n", console.Visible(d.Next))
	fmt.Fprint(out, s.String())
}

func offerText(o pxedoctor.Offer) string {
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
	if o.Port == dhcp.PortPXE {
		at = " on port 4011"
	}
	return o.Server.String() + at + " " + strings.Join(says, ", ")
}
