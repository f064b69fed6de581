package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/cmd/haul/internal/server/source"
	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
	"github.com/haul-project/haul/cmd/haul/internal/system/smallfile"
	"github.com/haul-project/haul/cmd/haul/internal/tftp/remap"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/tftp"
)

// publicFiles are the directories for clients who do not log in, and the rules for
// them.
type publicFiles struct {
	site          *site.Site
	reads, writes []string // directories, absolute
	roots         []*os.Root
	uploads       []*localdir.Dir
	small         *localdir.SmallFiles // may be nil
}

// openPublicFiles opens the directories and reads the rules.
func (cfg *Config) openPublicFiles(small *localdir.SmallFiles) (*publicFiles, error) {
	s := &publicFiles{small: small, site: &site.Site{FoldCase: cfg.Files.FoldCase, Upload: cfg.Files.Upload, Access: cfg.Files.Access, Opened: cfg.requested}}
	if err := cfg.openRoots(s); err != nil {
		s.close()
		return nil, err
	}
	for _, files := range s.uploads {
		files.NoSync, files.Kept = cfg.NoFsync, cfg.notifier.Kept
	}
	return s, nil
}

func (cfg *Config) openRoots(s *publicFiles) error {
	uploads, err := cfg.openUploads(s)
	if err != nil {
		return inSetting("upload-dir", err)
	}
	add := func(setting string, m site.Match, dirs []string) error {
		files, err := cfg.openDirs(s, dirs)
		s.site.Roots = append(s.site.Roots, site.Root{Match: m, Files: files, Uploads: uploads, PerClient: cfg.Files.PerClient, Shared: cfg.Files.Shared})
		return inSetting(setting, err)
	}
	for _, r := range cfg.Files.Roots {
		if err := add("root", r.For, []string{r.Dir}); err != nil {
			return err
		}
	}
	if err := add("dirs", site.Match{}, cfg.Dirs); err != nil {
		return err
	}
	if cfg.Boot.Answer {
		if err := cfg.addBootFiles(s); err != nil {
			return err
		}
	}
	if err := cfg.separate(); err != nil {
		return err
	}
	return cfg.readRules(s)
}

// separate refuses a directory for uploads from which something is served.
func (cfg *Config) separate() error {
	if cfg.Files.UploadDir == "" {
		return nil
	}
	uploads := userroots.RealPath(cfg.Files.UploadDir)
	all := cfg.dirs()
	for _, dir := range append(cfg.Boot.LoaderDirs(cfg.Dirs[0]), all[:len(all)-1]...) {
		if source.Overlap(dir, cfg.Files.UploadDir) {
			return failure.Mistake("upload-dir", "--upload-dir %s: uploads could be read from %s; choose another", cfg.Files.UploadDir, dir)
		}
		if source.IsRemote(dir) || source.IsRemote(cfg.Files.UploadDir) {
			continue
		}
		served := userroots.RealPath(dir)
		if userroots.Within(uploads, served) {
			return failure.Mistake("upload-dir", "--upload-dir %s: it is in %s, from which it would be read; choose one outside", cfg.Files.UploadDir, dir)
		}
		if userroots.Within(served, uploads) {
			return failure.Mistake("upload-dir", "--upload-dir %s: %s is in it, so that uploads could be read; choose another", cfg.Files.UploadDir, dir)
		}
	}
	return nil
}

// readRules reads the rules for names and the neighbour table, and checks the site.
func (cfg *Config) readRules(s *publicFiles) error {
	if cfg.Files.Map != "" {
		rules, err := ReadMap(cfg.Files.Map)
		if err != nil {
			return inSetting("map", err)
		}
		s.site.Map = rules
	}
	if s.site.NeedsNeighbours() {
		table, err := site.KernelNeighbours()
		if err != nil {
			return failure.Usage.Errorf("hardware (MAC) addresses in --root, --per-client or --access: %w", err)
		}
		s.site.Neighbours = table
	}
	if err := s.site.Check(); err != nil {
		return failure.Usage.Wrap(err)
	}
	return nil
}

// ReadMap reads a file of rules for names.
func ReadMap(path string) (*remap.Rules, error) {
	text, err := smallfile.Read(path, remap.MaxFile)
	if err != nil {
		return nil, failure.Local.Errorf("read %s: %w", path, console.WithoutPath(err))
	}
	rules, err := remap.Parse(string(text))
	if err != nil {
		return nil, failure.Mistake("map", "map %s: %w", path, err)
	}
	return rules, nil
}

// openDirs opens directories to be searched in order.
func (cfg *Config) openDirs(s *publicFiles, dirs []string) (store.Store, error) {
	var layers []store.Store
	for i, dir := range dirs {
		writable := i == 0 && cfg.Files.Upload != site.UploadNone && cfg.Files.UploadDir == ""
		layer, err := s.openTree(cfg, dir, writable)
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	files := layers[0]
	if len(layers) > 1 {
		files = store.Layers(layers...)
	}
	if cfg.Files.FoldCase {
		return store.FoldCase(files)
	}
	return files, nil
}

// openUploads opens the directory for uploads alone; nil if there is none.
func (cfg *Config) openUploads(s *publicFiles) (store.Store, error) {
	if cfg.Files.UploadDir == "" {
		return nil, nil
	}
	return s.openTree(cfg, cfg.Files.UploadDir, true)
}

// openTree opens a directory, or a source, as clients may see it.
func (s *publicFiles) openTree(cfg *Config, dir string, writable bool) (store.Tree, error) {
	if t := cfg.sources.Tree(dir); t != nil {
		return cfg.shown(t), nil
	}
	files, err := s.openDir(dir, writable)
	if err != nil {
		return nil, err
	}
	return cfg.shown(files), nil
}

// shown returns the files of a directory that clients may see.
func (cfg *Config) shown(files store.Tree) store.Tree {
	if cfg.Files.Hidden {
		return store.Finished(files)
	}
	return store.Visible(files)
}

func (s *publicFiles) openDir(dir string, writable bool) (*localdir.Dir, error) {
	if dir == "" {
		return nil, failure.Usage.Errorf("the name of a directory is empty; use . for the current directory")
	}
	root, err := os.OpenRoot(dir)
	if _, notDir := netip.ParseAddr(dir); err != nil && notDir == nil {
		return nil, failure.Usage.Errorf("serve %s: there is no such directory; if it belongs to --trace, write --trace=%s", dir, dir)
	}
	if scheme, rest, ok := strings.Cut(dir, ":/"); err != nil && ok && source.IsRemote(scheme+"://"+rest) {
		return nil, failure.Usage.Errorf("serve %s: there is no such directory; write %s://%s for a URL", dir, scheme, strings.TrimLeft(rest, "/"))
	}
	if err != nil {
		return nil, failure.Local.Errorf("serve %s: %w", dir, console.WithoutPath(err))
	}
	s.roots = append(s.roots, root)
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, failure.Local.Errorf("serve %s: %w", dir, err)
	}
	files := localdir.New(root)
	files.Path, files.LinksFromRoot, files.Small = absolute, true, s.small
	if writable {
		s.writes = append(s.writes, absolute)
		s.uploads = append(s.uploads, files)
	} else {
		s.reads = append(s.reads, absolute)
	}
	return files, nil
}

func (s *publicFiles) sandboxPaths(c *privilege.Confinement) {
	c.Read = append(c.Read, s.reads...)
	c.Write = append(c.Write, s.writes...)
}

func (s *publicFiles) close() {
	for _, r := range s.roots {
		_ = r.Close()
	}
}

// warnUnwritable warns of directories that uploads cannot be written to. Call it when the
// process has changed to its final user.
func warnUnwritable(protocol string, dirs []string, say sayFunc) {
	for _, dir := range dirs {
		if err := privilege.CheckWritable(dir); err != nil {
			say(slog.LevelWarn, protocol+": uploads will fail, as the user that haul runs as cannot write to the directory; change its owner or mode, or leave out --upload",
				slog.String("directory", dir), slog.String("error", err.Error()))
		}
	}
}

// sweep removes the leftovers of broken uploads.
func (s *publicFiles) sweep(ctx context.Context, log *slog.Logger) {
	say := func(level slog.Level, text string, attrs ...slog.Attr) { log.LogAttrs(ctx, level, text, attrs...) }
	sweepOften(ctx, say, func() (removed int, err error) {
		for _, files := range s.uploads {
			n, sweepErr := files.Sweep(ctx)
			removed, err = removed+n, errors.Join(err, sweepErr)
		}
		return removed, err
	})
}

// sweepEvery is the time between two searches for leftovers of broken uploads.
const sweepEvery = 24 * time.Hour

// sweepOften sweeps at the start and then every sweepEvery, until ctx ends: resumable
// uploads are kept for a while.
func sweepOften(ctx context.Context, say sayFunc, sweep func() (removed int, err error)) {
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

// answerFrom makes a server answer by a site's rules. With parents, uploads make missing
// directories.
func answerFrom(srv *tftp.Config, s *site.Site, parents bool) {
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
