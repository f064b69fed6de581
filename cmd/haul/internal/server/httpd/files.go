package httpd

import (
	"context"
	"io/fs"

	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/web"
)

// siteFiles is a store with a site's files, as one HTTP client may see them.
type siteFiles struct {
	site   *site.Site
	client site.Client
}

func (s siteFiles) Open(ctx context.Context, name string) (store.File, error) {
	return s.site.Open(ctx, s.client, name)
}

func (s siteFiles) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return s.site.Stat(ctx, s.client, name)
}

// Capabilities says that the only capability is ReadDir.
func (s siteFiles) Capabilities() store.Capabilities { return store.Capabilities{ReadDir: s.readDir} }

func (s siteFiles) readDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	return s.site.ReadDir(ctx, s.client, name)
}

func (s siteFiles) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	return s.site.Create(ctx, s.client, name, c)
}

// accessOf returns the rights of clients that have not logged in. UploadUnique does not apply,
// because the client names the file in PUT.
func accessOf(p site.Policy) web.Access {
	switch p {
	case site.UploadCreate:
		return web.AccessCreate
	case site.UploadOverwrite:
		return web.AccessOverwrite
	}
	return web.AccessRead
}
