package site

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
)

// A PerClient says whether the clients of a root have directories of their own in it, as with
// tftp-unique-root of dnsmasq. If the directory of a client exists, it is that client's root;
// otherwise the client gets the root itself. A client cannot name another client's directory.
type PerClient uint8

// How a client's directory is named.
const (
	NotPerClient PerClient = iota // no directories for clients
	ByIP                          // 192.0.2.7, 2001:db8::7
	ByMAC                         // 52-54-00-12-34-56: see [Site.Neighbours]
)

var perClient = [...]string{NotPerClient: "none", ByIP: "ip", ByMAC: "mac"}

// String returns "none", "ip" or "mac".
func (p PerClient) String() string {
	if int(p) < len(perClient) {
		return perClient[p]
	}
	return fmt.Sprintf("per-client kind %d", uint8(p))
}

// ParsePerClient reads the text that [PerClient.String] returns.
func ParsePerClient(s string) (PerClient, error) {
	if i := slices.Index(perClient[:], s); i >= 0 {
		return PerClient(i), nil
	}
	return 0, fmt.Errorf("per-client directories %q: write one of %s", s, strings.Join(perClient[:], ", "))
}

// names reports whether dir has the form of a client directory's name.
func (p PerClient) names(dir string) bool {
	switch p {
	case ByIP:
		_, err := netip.ParseAddr(dir)
		return err == nil
	case ByMAC:
		_, ok := parseMAC(dir)
		return ok
	}
	return false
}

// ownPlace moves p to the client's own directory, if root has one.
func (q *request) ownPlace(root *Root, p place) (place, error) {
	own, err := q.ownName(root.PerClient)
	if err != nil {
		return place{}, err
	}
	// A client that asks for another client's directory learns nothing, not even that it is
	// refused.
	first, _, _ := strings.Cut(p.name, "/")
	if first != own && root.PerClient.names(first) {
		op := "open"
		if q.write {
			op = "create"
		}
		return place{}, &fs.PathError{Op: op, Path: p.name, Err: fs.ErrNotExist}
	}
	if own == "" {
		return p, nil
	}
	p.claims = first == own
	fi, err := p.store.Stat(q.ctx, own)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrInvalid): // on Windows no name has a colon
		return p, nil
	case err != nil:
		// The client may have a directory of its own, so the root may be the wrong place.
		return place{}, err
	case !fi.IsDir():
		return p, nil
	}
	if root.Shared && !q.write {
		p.fallback = p.name
	}
	p.name, p.claims = own+"/"+p.name, false
	return p, nil
}

// ownName returns the name of the client's directory; "" if there can be none, or if the hardware
// address is not known.
func (q *request) ownName(kind PerClient) (string, error) {
	switch kind {
	case ByIP:
		if q.client.Peer.IsValid() {
			return q.client.Peer.String(), nil
		}
	case ByMAC:
		mac, ok, err := q.hardware()
		if ok {
			return mac.dashed(), nil
		}
		return "", err
	}
	return "", nil
}
