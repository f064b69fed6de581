// Package site decides which file a client's request means, and whether the client may access it.
// It does so in the same way for every protocol.
//
// A [Site] is built once, checked, and then used for each transfer:
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
// A name passes these steps: as the client sent it → [Site.Map] → [store.CleanName] → [Site.Access]
// → the first of [Site.Roots] that is for the client → the client's own directory there, if it has
// one → the store.
//
// # Errors
//
// The site's own refusals are a [*Refusal]. For errors.Is it is an [fs.ErrPermission], and it has a
// text for the client. Other errors come from package store, or say that the neighbour table could
// not be read.
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

// A Client is the sender of a request, and the address that received it.
type Client struct {
	Peer  netip.Addr     // the client's address; a zone or an IPv4-in-IPv6 form does not matter
	Local netip.AddrPort // our address and port that received the request
}

// A Site says what is served to whom. Its fields must not change once it is in use. Any goroutine
// may then call its methods. It must not be copied.
type Site struct {
	// Roots are tried in order. A client gets only the first root that is for it. A client without
	// a root is refused.
	Roots []Root

	// Map rewrites the names that clients send; nil leaves them as they are.
	Map *remap.Rules

	// Access says who may do what. The first rule that matches decides. If none matches, the
	// request is allowed, so a list of allowed requests has to end in "deny all *".
	Access []Rule

	// FoldCase says that the stores ignore case, so that an allowing rule has to ignore it as well.
	// A denying rule always does. It also matches all spellings that some file system takes for the
	// same name: Unicode's normal forms, invisible characters, and two letters for one, such as ss
	// for ß.
	FoldCase bool

	// Upload says which uploads are accepted; zero means none.
	Upload Policy

	// Neighbours looks up the hardware addresses for [Match] and [ByMAC]; nil means that none are
	// known. See [KernelNeighbours].
	Neighbours Neighbours

	// Now is the clock for the names of [UploadUnique]; nil means time.Now.
	Now func() time.Time

	// Opened, if it is set, is called after a client has opened a file for reading, with the
	// file's name in the store.
	Opened func(c Client, name string)

	stamp atomic.Int64 // the latest time in a unique name, Unix milliseconds
}

// A Root is a tree of files, and the clients that it is for.
type Root struct {
	Match Match // zero means all clients

	// Files are the files for reading; nil means that clients cannot read.
	Files store.Store

	// Uploads is the store for uploads; nil means Files. Clients cannot read files in another
	// store, nor find out that they exist.
	Uploads store.Store

	// PerClient gives each client its own directory, if the directory exists.
	PerClient PerClient

	// Shared lets a client with its own directory read files that are missing there from the root.
	// dnsmasq does not do this.
	Shared bool
}

// Check returns an error if the site cannot work as intended.
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

// NeedsNeighbours reports whether a root or a rule uses hardware addresses, so that Neighbours has
// to be set.
func (s *Site) NeedsNeighbours() bool {
	return slices.ContainsFunc(s.Roots, func(r Root) bool { return r.PerClient == ByMAC || len(r.Match.MACs) > 0 }) ||
		slices.ContainsFunc(s.Access, func(r Rule) bool { return len(r.Who.MACs) > 0 })
}

// Open opens the file that a name means for a client.
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

// Stat describes the file that a name means for a client that would read it.
func (s *Site) Stat(ctx context.Context, c Client, name string) (fs.FileInfo, error) {
	p, err := s.request(ctx, c, false).place(name)
	if err != nil {
		return nil, err
	}
	return p.stat(ctx)
}

// Create begins the upload of a file under the name that it means for a client, by the policy
// [Site.Upload]. A client that may write a file may also create its missing parent directories
// ([store.Create].Parents), but not a client's own directory ([Root].PerClient). The result is an
// [*Upload], which has the final name.
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

// An Upload is a file that a client is sending.
type Upload struct {
	store.Upload
	Name string // its name in the store after Commit
}

// Unwrap returns the upload below, for [store.As].
func (u *Upload) Unwrap() any { return u.Upload }

// Location returns the final location of the file, with Name, for a server's log.
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
