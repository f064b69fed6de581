package site

import (
	"context"
	"errors"
	"io/fs"

	"github.com/haul-project/haul/store"
)

// Open opens the file that a client's name refers to.
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

// Stat describes the file that a client's name refers to when the client reads it.
func (s *Site) Stat(ctx context.Context, c Client, name string) (fs.FileInfo, error) {
	p, err := s.request(ctx, c, false).place(name)
	if err != nil {
		return nil, err
	}
	return p.stat(ctx)
}

// For returns the files of the site as a store, as one client sees them.
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
