// Package site decides which file a client's request means, and whether the
// client may have it. It does so in the same way for every protocol.
//
// A [Site] is put together once, checked, and then asked for each transfer:
//
//	s := &site.Site{
//		Roots:  []site.Root{{Files: localdir.New(boot)}},
//		Access: []site.Rule{deny},
//		Upload: site.UploadUnique,
//	}
//	if err := s.Check(); err != nil {
//		return err
//	}
//	f, err := s.Open(ctx, site.Client{Peer: peer, Local: local}, name)
//
// A name goes this way: as the client sent it → [Site.Map] → [store.CleanName]
// → [Site.Access] → the first of [Site.Roots] that is for the client → the
// client's own directory there, if it has one → the store.
//
// # Errors
//
// The site's own refusals are a [*Refusal], which is an [fs.ErrPermission] to
// errors.Is and has a text that the client may see. All other errors are those
// of package store, or say that the neighbour table could not be read.
package site

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/tftp/remap"
	"github.com/haul-project/haul/store"
)

// A Client is who asks, and where.
type Client struct {
	Peer  netip.Addr     // the client's address; a zone or an IPv4-in-IPv6 form does not matter
	Local netip.AddrPort // the address and port of ours that was asked
}

// A Site says what is served to whom. Its fields must not change once it is in
// use; then any goroutine may call its methods. It must not be copied.
type Site struct {
	// Roots are tried in order: a client gets the first that is for it, and
	// only that. A client that no root is for is refused.
	Roots []Root

	// Map rewrites the names that clients send; nil leaves them as they are.
	Map *remap.Rules

	// Access says who may do what. The first rule that matches decides; if
	// none does, or there is none, the request is allowed. So a list of
	// what is allowed ends in "deny all *".
	Access []Rule

	// FoldCase says that the stores take upper for lower case, so that an
	// allowing rule has to as well. A rule that denies always does, and matches
	// all spellings that some file system takes for the same name: in Unicode's
	// normal forms, with characters that show nothing, and with two letters for
	// one, such as ss for ß.
	FoldCase bool

	// Upload says what uploads are taken; zero means none.
	Upload Policy

	// Neighbours looks up the hardware addresses that [Match] and [ByMAC] ask
	// for; nil knows none. See [KernelNeighbours].
	Neighbours Neighbours

	// Now is the clock for the names of [UploadUnique]; nil means time.Now.
	Now func() time.Time

	// Opened, if set, is called for each file that a client has opened to read it, with its
	// name in the store, after that has succeeded.
	Opened func(c Client, name string)

	stamp atomic.Int64 // the latest given to a unique name, Unix milliseconds
}

// A Root is a tree of files, and for whom it is.
type Root struct {
	Match Match // zero means everybody

	// Files are what clients read; nil means that they cannot.
	Files store.Store

	// Uploads is where uploads go; nil means Files. Files in another store
	// cannot be read, nor can a reader find out that they exist.
	Uploads store.Store

	// PerClient gives each client a directory of its own, if it exists.
	PerClient PerClient

	// Shared lets a client that has its own directory read from the root what
	// is missing there. dnsmasq does not.
	Shared bool
}

// Check returns an error if the site cannot work as it is meant to.
func (s *Site) Check() error {
	if len(s.Roots) == 0 {
		return errors.New("site: no root, so there is nothing to serve")
	}
	for i, r := range s.Roots {
		if r.Files == nil && r.Uploads == nil {
			return fmt.Errorf("site: root %d has no store", i+1)
		}
		if r.PerClient > ByMAC {
			return fmt.Errorf("site: root %d: unknown kind %d of per-client directory", i+1, r.PerClient)
		}
	}
	if s.NeedsNeighbours() && s.Neighbours == nil {
		if !NeighboursSupported {
			return fmt.Errorf("site: hardware (MAC) addresses in a rule or root: %w", errNeighbours)
		}
		return errors.New("site: hardware (MAC) addresses in a rule or root need the neighbour table")
	}
	if s.Upload > UploadUnique {
		return fmt.Errorf("site: unknown upload policy %d", s.Upload)
	}
	return nil
}

// NeedsNeighbours reports whether a root or a rule asks for hardware addresses,
// and so for Neighbours.
func (s *Site) NeedsNeighbours() bool {
	return slices.ContainsFunc(s.Roots, func(r Root) bool { return r.PerClient == ByMAC || len(r.Match.MACs) > 0 }) ||
		slices.ContainsFunc(s.Access, func(r Rule) bool { return len(r.Who.MACs) > 0 })
}

// Open opens the file that name means for a client.
func (s *Site) Open(ctx context.Context, c Client, name string) (store.File, error) {
	p, err := s.request(ctx, c, false).place(name)
	if err != nil {
		return nil, err
	}
	f, err := p.store.Open(ctx, p.name)
	if p.fallback != "" && errors.Is(err, fs.ErrNotExist) {
		p.name = p.fallback
		f, err = p.store.Open(ctx, p.name)
	}
	if err == nil && s.Opened != nil {
		s.Opened(c, p.name)
	}
	return f, err
}

// Stat describes what name means for a client that would read it.
func (s *Site) Stat(ctx context.Context, c Client, name string) (fs.FileInfo, error) {
	p, err := s.request(ctx, c, false).place(name)
	if err != nil {
		return nil, err
	}
	return p.stat(ctx)
}

// Create begins the upload of what name means for a client, as [Site.Upload]
// has it. A client that may write a file there may have the directories above
// it made ([store.Create].Parents), but not that of a client
// ([Root].PerClient). The result is an [*Upload], which knows the name it gets.
func (s *Site) Create(ctx context.Context, c Client, name string, o store.Create) (store.Upload, error) {
	if s.Upload == UploadNone {
		return nil, &Refusal{Message: "uploads are not allowed"}
	}
	p, err := s.request(ctx, c, true).place(name)
	if err != nil {
		return nil, err
	}
	if s.Upload == UploadUnique {
		return s.createUnique(ctx, p, o)
	}
	// The administrator decides which clients have directories of their own.
	o.Parents = o.Parents && !p.claims
	o.Exclusive = o.Exclusive || s.Upload == UploadCreate
	u, err := p.store.Create(ctx, p.name, o)
	if err != nil {
		return nil, err
	}
	return &Upload{Upload: u, Name: p.name}, nil
}

// An Upload is a file that a client sends.
type Upload struct {
	store.Upload
	Name string // in its store: what Commit publishes it as
}

// Unwrap is for [store.As].
func (u *Upload) Unwrap() any { return u.Upload }

// Location returns where the file will be, with Name, for a server's log.
func (u *Upload) Location() store.Location {
	l := store.LocationOf(u.Upload)
	l.Name = u.Name
	return l
}

// For returns the site as one client sees it.
func (s *Site) For(c Client) store.Store { return view{s, c} }

type view struct {
	site   *Site
	client Client
}

func (v view) Open(ctx context.Context, name string) (store.File, error) {
	return v.site.Open(ctx, v.client, name)
}

func (v view) Create(ctx context.Context, name string, o store.Create) (store.Upload, error) {
	return v.site.Create(ctx, v.client, name, o)
}

func (v view) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return v.site.Stat(ctx, v.client, name)
}
