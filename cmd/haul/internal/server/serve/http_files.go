package serve

import (
	"context"
	"io/fs"
	"net/netip"

	"github.com/haul-project/haul/cmd/haul/internal/server/site"
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

// Create returns the upload of the store itself, which may be resumable.
func (s siteFiles) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	u, err := s.site.Create(ctx, s.client, name, c)
	if own, ok := u.(*site.Upload); ok {
		return own.Upload, err
	}
	return u, err
}

// anybody returns the account of a client who has not logged in.
func (s *httpService) anybody(v web.Visitor) *web.Account {
	if s.whole != nil {
		return s.whole
	}
	local, _ := netip.ParseAddrPort(addrText(v.Local))
	return &web.Account{Store: siteFiles{s.files.site, site.Client{Peer: v.Peer, Local: local}}, Access: s.access()}
}

// access returns what clients who have not logged in may do. UploadUnique does not apply:
// PUT names the file.
func (s *httpService) access() web.Access {
	switch s.files.site.Upload {
	case site.UploadCreate:
		return web.AccessCreate
	case site.UploadOverwrite:
		return web.AccessOverwrite
	}
	return web.AccessRead
}

// simple reports whether all clients get the same directory unchanged. Then they need no
// site, whose listings are limited to what fits in memory.
func (cfg *Config) simple() bool {
	return len(cfg.Dirs) == 1 && len(cfg.Files.Roots) == 0 && cfg.Files.PerClient == site.NotPerClient && cfg.Files.Map == "" && len(cfg.Files.Access) == 0 &&
		!cfg.Files.FoldCase && cfg.Files.UploadDir == "" && cfg.Files.Upload != site.UploadUnique && !cfg.Boot.Answer
}
