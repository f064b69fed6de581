package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/site"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/remap"
)

// A served is what "haul serve" has open on disk, and the rules for it.
type served struct {
	site          *site.Site
	reads, writes []string // directories, absolute
	roots         []*os.Root
	uploads       []*store.DirStore
}

// open opens the directories and reads the rules.
func (f *serveFlags) open() (*served, error) {
	s := &served{site: &site.Site{FoldCase: f.foldCase}}
	if err := f.fill(s); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (f *serveFlags) fill(s *served) error {
	var err error
	if s.site.Upload, err = parseUpload(f.upload); err != nil {
		return err
	}
	if f.shared && f.perClient == "" {
		return usagef("--shared goes with --per-client; without it all clients share DIR")
	}
	per := site.NotPerClient
	if f.perClient != "" {
		if per, err = site.ParsePerClient(f.perClient); err != nil {
			return usagef("--per-client: %w", err)
		}
	}
	if f.uploadParents && f.upload == "" {
		return usagef("--upload-parents: without --upload nothing can be uploaded")
	}
	uploads, err := f.openUploads(s)
	if err != nil {
		return err
	}
	for _, word := range f.roots {
		root, err := f.openRoot(s, word)
		if err != nil {
			return err
		}
		root.PerClient, root.Shared, root.Uploads = per, f.shared, uploads
		s.site.Roots = append(s.site.Roots, root)
	}
	files, err := f.openDirs(s, f.dirs)
	if err != nil {
		return err
	}
	s.site.Roots = append(s.site.Roots, site.Root{Files: files, Uploads: uploads, PerClient: per, Shared: f.shared})
	if err := f.separate(); err != nil {
		return err
	}
	return f.readRules(s)
}

// separate refuses a directory for uploads from which something is served.
func (f *serveFlags) separate() error {
	if f.uploadDir == "" {
		return nil
	}
	dirs := slices.Clone(f.dirs)
	for _, word := range f.roots {
		dirs = append(dirs, word[strings.LastIndex(word, "=")+1:])
	}
	uploads := resolved(f.uploadDir)
	for _, dir := range dirs {
		served := resolved(dir)
		if within(uploads, served) {
			return usagef("--upload-dir %s: it is in %s, from which it would be read; choose one outside", f.uploadDir, dir)
		}
		if within(served, uploads) {
			return usagef("--upload-dir %s: %s is in it, so that uploads could be read; choose another", f.uploadDir, dir)
		}
	}
	return nil
}

// resolved returns a path without symbolic links, as far as it can be told.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return path
}

// within reports whether a path is dir, or below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// readRules reads what decides on names and access, and checks the whole.
func (f *serveFlags) readRules(s *served) error {
	for _, word := range f.access {
		rule, err := site.ParseRule(word)
		if err != nil {
			return usagef("--access %q: %w", word, err)
		}
		s.site.Access = append(s.site.Access, rule)
	}
	if f.mapFile != "" {
		rules, err := readMap(f.mapFile)
		if err != nil {
			return err
		}
		s.site.Map = rules
	}
	if s.site.NeedsNeighbours() {
		table, err := site.KernelNeighbours()
		if err != nil {
			return usagef("hardware (MAC) addresses in --root, --per-client or --access: %w", err)
		}
		s.site.Neighbours = table
	}
	if err := s.site.Check(); err != nil {
		return usageError{err}
	}
	return nil
}

func parseUpload(word string) (site.Policy, error) {
	if word == "" {
		return site.UploadNone, nil
	}
	p, err := site.ParsePolicy(word)
	if err != nil || p == site.UploadNone {
		return p, usagef("--upload %s: choose create, overwrite or unique", word)
	}
	return p, nil
}

// readMap reads a file of rules for names.
func readMap(path string) (*remap.Rules, error) {
	text, err := readSome(path, remap.MaxFile)
	if err != nil {
		return nil, localError{fmt.Errorf("read %s: %w", path, console.WithoutPath(err))}
	}
	rules, err := remap.Parse(string(text))
	if err != nil {
		return nil, usagef("map %s: %w", path, err)
	}
	return rules, nil
}

// readSome reads a regular file of at most so many bytes.
func readSome(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path) // first: opening a pipe waits for who writes
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return b, err
}

// openRoot opens the directory of "CLIENT=DIR". CLIENT may contain an equals
// sign itself, as in "on=:6969", so the first that leaves sense in front counts.
func (f *serveFlags) openRoot(s *served, word string) (site.Root, error) {
	var first error
	for i := range len(word) {
		if word[i] != '=' {
			continue
		}
		m, err := site.ParseMatch(word[:i])
		if err != nil {
			if first == nil || strings.HasPrefix(word, "on=") {
				first = err
			}
			continue
		}
		files, err := f.openDirs(s, []string{word[i+1:]})
		return site.Root{Match: m, Files: files}, err
	}
	if first == nil {
		first = errors.New("it is CLIENT=DIR")
	}
	return site.Root{}, usagef("--root %s: %w", word, first)
}

// openDirs opens directories to be searched in order.
func (f *serveFlags) openDirs(s *served, dirs []string) (store.Store, error) {
	var layers []store.Store
	for i, dir := range dirs {
		writable := i == 0 && f.upload != "" && f.uploadDir == ""
		layer, err := s.openDir(dir, writable)
		if err != nil {
			return nil, err
		}
		layers = append(layers, f.shown(layer))
	}
	files := layers[0]
	if len(layers) > 1 {
		files = store.Layers(layers...)
	}
	if f.foldCase {
		return store.FoldCase(files)
	}
	return files, nil
}

// openUploads opens the directory for uploads alone; nil if there is none.
func (f *serveFlags) openUploads(s *served) (store.Store, error) {
	if f.uploadDir == "" {
		return nil, nil
	}
	if f.upload == "" {
		return nil, usagef("--upload-dir %s: without --upload nothing can be uploaded", f.uploadDir)
	}
	files, err := s.openDir(f.uploadDir, true)
	if err != nil {
		return nil, err
	}
	return f.shown(files), nil
}

// shown returns what is served of a directory's files.
func (f *serveFlags) shown(files *store.DirStore) store.Tree {
	if f.hidden {
		return store.Finished(files)
	}
	return store.Visible(files)
}

func (s *served) openDir(dir string, writable bool) (*store.DirStore, error) {
	if dir == "" {
		return nil, usagef("the name of a directory is empty; write . for the one you are in")
	}
	root, err := os.OpenRoot(dir)
	if _, notDir := netip.ParseAddr(dir); err != nil && notDir == nil {
		return nil, usagef("serve %s: there is no such directory; if it belongs to --trace, write --trace=%s", dir, dir)
	}
	if err != nil {
		return nil, localError{fmt.Errorf("serve %s: %w", dir, console.WithoutPath(err))}
	}
	s.roots = append(s.roots, root)
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, localError{fmt.Errorf("serve %s: %w", dir, err)}
	}
	files := store.Dir(root)
	files.Path, files.LinksFromRoot = absolute, true
	if writable {
		s.writes = append(s.writes, absolute)
		s.uploads = append(s.uploads, files)
	} else {
		s.reads = append(s.reads, absolute)
	}
	return files, nil
}

func (s *served) close() {
	for _, r := range s.roots {
		_ = r.Close()
	}
}

// warnUnwritable warns of directories that uploads cannot get into. It is for when the
// server runs as the user that it stays.
func warnUnwritable(protocol string, dirs []string, say func(slog.Level, string, ...slog.Attr)) {
	for _, dir := range dirs {
		if err := checkWritable(dir); err != nil {
			say(slog.LevelWarn, protocol+": uploads will fail, as the user that haul runs as cannot write to the directory; change its owner or mode, or leave out --upload",
				slog.String("directory", dir), slog.String("error", err.Error()))
		}
	}
}

// sweep removes what broken uploads have left.
func (s *served) sweep(ctx context.Context, log *slog.Logger) {
	say := func(level slog.Level, text string, attrs ...slog.Attr) { log.LogAttrs(ctx, level, text, attrs...) }
	sweepOften(ctx, say, func() (removed int, err error) {
		for _, files := range s.uploads {
			n, sweepErr := files.Sweep(ctx)
			removed, err = removed+n, errors.Join(err, sweepErr)
		}
		return removed, err
	})
}

// sweepEvery is how often what broken uploads have left is looked for.
const sweepEvery = 24 * time.Hour

// sweepOften sweeps at the start and then now and then, until ctx ends: what can be
// resumed is kept for a while.
func sweepOften(ctx context.Context, say func(slog.Level, string, ...slog.Attr), sweep func() (removed int, err error)) {
	for {
		n, err := sweep()
		if n > 0 {
			say(slog.LevelInfo, "removed unfinished uploads of an earlier run", slog.Int("files", n))
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			say(slog.LevelWarn, "looking for unfinished uploads of an earlier run", slog.String("error", err.Error()))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(sweepEvery):
		}
	}
}

// answerFrom has a server answer by a site's rules. With parents, uploads make
// directories that are missing.
func answerFrom(srv *tftp.Server, s *site.Site, parents bool) {
	client := func(r *tftp.Request) site.Client {
		return site.Client{Peer: r.Peer.Addr(), Local: r.Local}
	}
	srv.Read = func(ctx context.Context, r *tftp.Request) (store.File, error) {
		return s.Open(ctx, client(r), r.Name)
	}
	srv.Write = func(ctx context.Context, r *tftp.Request) (store.Upload, error) {
		return s.Create(ctx, client(r), r.Name, store.Create{Size: r.Announced(), Parents: parents})
	}
}
