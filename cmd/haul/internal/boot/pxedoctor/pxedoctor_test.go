package pxedoctor

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/boot/proxydhcp"
)

var (
	dhcpServer = netip.MustParseAddr("192.0.2.3") // gives addresses
	haul       = netip.MustParseAddr("192.0.2.1")
	tftp       = netip.MustParseAddr("192.0.2.7") // another boot server
)

// kind returns a kind of machine.
func kind(t *testing.T, name string) proxydhcp.Kind {
	t.Helper()
	k, err := proxydhcp.ParseKind(name)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// It is a problem if a network lacks a server, or if servers contradict each other. Which answer
// counts depends on the machine.
func TestChoose(t *testing.T) {
	address := proxydhcp.Offer{Server: dhcpServer, Address: netip.MustParseAddr("192.0.2.50"), Next: dhcpServer}
	redirect := proxydhcp.Offer{Server: haul, Next: haul, Class: "PXEClient"}
	direct := proxydhcp.Offer{Server: haul, Next: haul, Class: "PXEClient", Direct: true, File: "ipxe.efi"}
	other := proxydhcp.Offer{Server: tftp, Next: tftp, File: "pxelinux.0"}
	same := direct
	same.Server = tftp // names haul's file, as a DHCP server with its address does
	byHTTP := proxydhcp.Offer{Server: haul, Next: haul, Class: "HTTPClient", File: "http://192.0.2.1/ipxe.efi"}
	for name, test := range map[string]struct {
		kind     string
		offers   []proxydhcp.Offer
		file     *proxydhcp.Offer
		problems []string
	}{
		"direct":         {kind: "x64", offers: []proxydhcp.Offer{address, direct}, file: &direct},
		"redirect":       {kind: "x64", offers: []proxydhcp.Offer{redirect, address}, file: &redirect},
		"HTTP":           {kind: "http-x64", offers: []proxydhcp.Offer{address, direct, byHTTP}, file: &byHTTP},
		"HTTP for PXE":   {kind: "x64", offers: []proxydhcp.Offer{address, byHTTP}, problems: []string{"no server names a boot file for it"}},
		"silence":        {kind: "bios", problems: []string{"no DHCP server gives an address", "no server names a boot file for it"}},
		"no boot server": {kind: "bios", offers: []proxydhcp.Offer{address}, problems: []string{"no server names a boot file for it"}},
		"no DHCP server": {kind: "x64", offers: []proxydhcp.Offer{direct}, file: &direct, problems: []string{"no DHCP server gives an address"}},
		"one file twice": {kind: "x64", offers: []proxydhcp.Offer{address, direct, same}, file: &direct},
		"two files": {
			kind: "x64", offers: []proxydhcp.Offer{address, other, redirect}, file: &other,
			problems: []string{"192.0.2.7 and 192.0.2.1 contradict each other: the machine gets pxelinux.0 from 192.0.2.7 or what 192.0.2.1 says on port 4011"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var d Diagnosis
			file := d.choose(kind(t, test.kind), test.offers)
			if (file == nil) != (test.file == nil) || file != nil && *file != *test.file {
				t.Errorf("the machine takes %+v, want %+v", file, test.file)
			}
			if !slices.Equal(d.Problems, test.problems) {
				t.Errorf("the problems are %q, want %q", d.Problems, test.problems)
			}
		})
	}
}

// A machine that is sent to port 4011 takes the answer from there, or else the file of the offer.
// Without either it does not boot.
func TestChooseBoot(t *testing.T) {
	var d Diagnosis
	bare, named := proxydhcp.Offer{Server: haul}, proxydhcp.Offer{Server: haul, File: "ipxe.efi"}
	if got := d.chooseBoot(&bare, []proxydhcp.Offer{named}); got == nil || *got != named {
		t.Errorf("with an answer it takes %+v", got)
	}
	if got := d.chooseBoot(&named, nil); got != &named || len(d.Problems) > 0 {
		t.Errorf("with the file of the offer it takes %+v, with the problems %q", got, d.Problems)
	}
	if got := d.chooseBoot(&bare, nil); got != nil || !slices.Equal(d.Problems, []string{"192.0.2.1 does not answer on port 4011, where the machine asks for its boot file"}) {
		t.Errorf("without either it takes %+v, with the problems %q", got, d.Problems)
	}
}

// The next step of a machine depends on the file, and on whether it can be fetched.
func TestFollow(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/boot.ipxe" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte("#!ipxe\n"))
	}))
	defer web.Close()
	for name, test := range map[string]struct {
		kind, file string
		fetches    bool
		want       Diagnosis
	}{
		"none": {kind: "pi", want: Diagnosis{Next: "it asks 192.0.2.1 by TFTP for names of its own"}},
		"none, and a PC": {kind: "x64", want: Diagnosis{
			Next: "it continues with its next boot device", Problems: []string{haul.String() + " names no boot file"},
		}},
		"a name that wants escapes": {kind: "x64", file: "a %#?.efi", want: Diagnosis{
			File: "tftp://192.0.2.1/a%20%25%23%3F.efi", Next: "it fetches tftp://192.0.2.1/a%20%25%23%3F.efi",
		}},
		"not fetched": {kind: "x64", file: "/ipxe.efi", want: Diagnosis{File: "tftp://192.0.2.1/ipxe.efi", Next: "it fetches tftp://192.0.2.1/ipxe.efi"}},
		"script":      {kind: "ipxe", file: web.URL + "/boot.ipxe", fetches: true, want: Diagnosis{File: web.URL + "/boot.ipxe", Bytes: 7, Next: "it runs the script " + web.URL + "/boot.ipxe"}},
		"program":     {kind: "http-x64", file: web.URL + "/boot.ipxe", fetches: true, want: Diagnosis{File: web.URL + "/boot.ipxe", Bytes: 7, Next: "it starts " + web.URL + "/boot.ipxe"}},
		"missing": {kind: "http-x64", file: web.URL + "/missing", fetches: true, want: Diagnosis{
			File: web.URL + "/missing", Next: "it fails to load its boot file, and continues with its next boot device",
			Problems: []string{web.URL + "/missing cannot be fetched: 404 Not Found"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var d Diagnosis
			d.follow(t.Context(), kind(t, test.kind), &proxydhcp.Offer{Server: haul, Next: haul, File: test.file}, test.fetches)
			if d.File != test.want.File || d.Bytes != test.want.Bytes || d.Next != test.want.Next || !slices.Equal(d.Problems, test.want.Problems) {
				t.Errorf("got %+v, want %+v", d, test.want)
			}
		})
	}
}

// A file that is too long is not fetched to its end, and an invalid URL is an error.
func TestFetchBounds(t *testing.T) {
	u := &countedUpload{}
	if _, err := u.WriteAt([]byte{1}, maxFile-1); err != nil || u.size != maxFile {
		t.Errorf("%v after %d bytes", err, u.size)
	}
	if _, err := u.WriteAt([]byte{1}, maxFile); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("one byte more: %v", err)
	}
	for _, url := range []string{"tftp://[", "ftp://192.0.2.1/x", "http://[/x"} {
		if _, err := fetch(context.Background(), url); err == nil {
			t.Errorf("%s is fetched", url)
		}
	}
}
