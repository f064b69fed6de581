//go:build unix

package interop

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A webServer starts a server with a directory and returns its address.
type webServer struct {
	name  string
	start func(t *testing.T, dir string) string
}

var listingServers = []webServer{
	{"python", startPython},
	{"nginx", startNginx},
	{"apache", startApache},
}

func startPython(t *testing.T, dir string) string {
	addr := freeTCP(t)
	_, port, _ := net.SplitHostPort(addr)
	d := find(t, "python3", "python3").start(t, "-m", "http.server", "--bind", "127.0.0.1", "--directory", dir, port)
	waitTCP(t, d, addr)
	return addr
}

func startNginx(t *testing.T, dir string) string {
	p, addr, own := find(t, "nginx", "nginx"), freeTCP(t), t.TempDir()
	config := filepath.Join(own, "nginx.conf")
	writeConfig(t, config, fmt.Sprintf(`
		daemon off; master_process off; pid %[1]s/pid; error_log stderr;
		events {}
		http {
			access_log off; client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
			server { listen %[2]s; root %[3]q; autoindex on; }
		}`, own, addr, dir))
	waitTCP(t, p.start(t, "-p", own, "-e", "stderr", "-c", config), addr)
	return addr
}

func startApache(t *testing.T, dir string) string {
	p, addr, own := find(t, "apache2-bin", "apache2"), freeTCP(t), t.TempDir()
	modules := filepath.Join(filepath.Dir(filepath.Dir(p.path)), "lib/apache2/modules")
	config := filepath.Join(own, "apache.conf")
	text := fmt.Sprintf("ServerName localhost\nListen %s\nPidFile %s/pid\nErrorLog /dev/stderr\nDocumentRoot %q\n", addr, own, dir)
	for _, m := range []string{"mpm_event", "authz_core", "autoindex", "dir"} {
		text += fmt.Sprintf("LoadModule %s_module %s/mod_%s.so\n", m, modules, m)
	}
	if os.Geteuid() == 0 {
		text += "User #65534\nGroup #65534\n"
	}
	text += fmt.Sprintf("<Directory %q>\nOptions Indexes\nIndexOptions FancyIndexing HTMLTable\nRequire all granted\n</Directory>\n", dir)
	writeConfig(t, config, text)
	waitTCP(t, p.start(t, "-D", "FOREGROUND", "-d", own, "-f", config), addr)
	return addr
}

func writeConfig(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// waitTCP waits until a daemon accepts connections.
func waitTCP(t *testing.T, d *daemon, addr string) {
	t.Helper()
	for end := time.Now().Add(startPatience); time.Now().Before(end); {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-d.done:
			t.Fatalf("%s ended at once: %v", filepath.Base(d.cmd.Path), d.err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Fatalf("%s does not accept connections within %v", filepath.Base(d.cmd.Path), startPatience)
}

// Haul lists and fetches trees from servers whose listings are only meant for people.
func TestHTTPListings(t *testing.T) {
	files := map[string]int{"a file": 3, "b&c;d+e%20f": 1, "sub #1/x?y": 70_000, "sub #1/deep/ü": 9, "q\"uote'<>": 2, "x:y": 5}
	for _, server := range listingServers {
		t.Run(server.name, func(t *testing.T) {
			dir, here := openDir(t), t.TempDir()
			for name, size := range files {
				file := filepath.Join(dir, "tree", name)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, content(size), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			url := "http://" + server.start(t, dir) + "/tree/"
			do(t, haul(t), "get", "-r", "-p", url, here)
			var got []string
			_ = filepath.WalkDir(filepath.Join(here, "tree"), func(name string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					rel, _ := filepath.Rel(filepath.Join(here, "tree"), name)
					got = append(got, rel)
					wantFile(t, name, content(files[rel]))
				}
				return err
			})
			if len(got) != len(files) {
				t.Errorf("fetched %q, want %d files", got, len(files))
			}
			if said := do(t, haul(t), "get", "-r", "-p", "--unchanged", url, here); !strings.Contains(said, "6 unchanged") {
				t.Errorf("again: %s", said)
			}
			list := strings.Split(strings.TrimSpace(do(t, haul(t), "ls", url)), "\n")
			if want := []string{"a file", "b&c;d+e%20f", "q\"uote'<>", "sub #1", "x:y"}; !slices.Equal(list, want) {
				t.Errorf("listed %q, want %q", list, want)
			}
		})
	}
}

// openDir returns a temporary directory that daemons of other users can read.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
