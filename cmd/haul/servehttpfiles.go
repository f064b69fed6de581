package main

import (
	"context"
	"io/fs"
	"net/netip"

	"github.com/haul-project/haul/site"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/web"
)

// siteFiles are the files of a site as one client of HTTP sees them.
type siteFiles struct {
	site   *site.Site
	client site.Client
}

var _ store.Lister = siteFiles{}

func (s siteFiles) Open(ctx context.Context, name string) (store.File, error) {
	return s.site.Open(ctx, s.client, name)
}

func (s siteFiles) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return s.site.Stat(ctx, s.client, name)
}

func (s siteFiles) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	return s.site.ReadDir(ctx, s.client, name)
}

// Create returns what the store has made, which may be one that can go on another
// time.
func (s siteFiles) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	u, err := s.site.Create(ctx, s.client, name, c)
	if own, ok := u.(*site.Upload); ok {
		return own.Upload, err
	}
	return u, err
}

// anybody returns what a visitor gets who has not logged in.
func (s *httpService) anybody(v web.Visitor) *web.Account {
	if s.whole != nil {
		return s.whole
	}
	local, _ := netip.ParseAddrPort(addrText(v.Local))
	return &web.Account{Store: siteFiles{s.files.site, site.Client{Peer: v.Peer, Local: local}}, Access: s.access()}
}

// access returns what everybody may do. Names that are the server's choice are not
// for PUT, which says where the file will be.
func (s *httpService) access() web.Access {
	switch s.files.site.Upload {
	case site.UploadCreate:
		return web.AccessCreate
	case site.UploadOverwrite:
		return web.AccessOverwrite
	}
	return web.AccessRead
}

// simple reports whether everybody gets the same directory as it is. Then there is
// no need for a site in between, which lists no more than it can hold.
func (f *serveFlags) simple() bool {
	return len(f.dirs) == 1 && len(f.roots) == 0 && f.perClient == "" && f.mapFile == "" && len(f.access) == 0 &&
		!f.foldCase && f.uploadDir == "" && f.upload != site.UploadUnique.String()
}

// checkPrecompressed refuses variants where somebody could bring one for another's
// file, or where what is beside a name need not be beside its file.
func (f *serveFlags) checkPrecompressed() error {
	switch {
	case !f.web.precompressed:
	case f.upload != "":
		return usagef("--precompressed with --upload: who uploads NAME.gz would change what all others get for NAME; leave out one of the two")
	case f.web.auth != "", !f.simple():
		return usagef("--precompressed is for one DIR that everybody gets as it is; leave out --http-auth, --root, --per-client, --map, --access, --fold-case and all but one DIR")
	}
	return nil
}
