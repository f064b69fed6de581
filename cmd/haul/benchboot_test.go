package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/haul-project/haul/tftp"
)

// bootKeys are the keys in the JSON of "haul bench boot", and siteKeys those with --simulate.
// Programs rely on them: keys may only be added.
var (
	bootKeys = strings.Fields(`seconds machines up failed cut up_seconds boot_seconds failures retried power_cycles
		loaders_again images_continued images_again loader_bytes image_bytes mb_per_second loader_size image_size
		loaders images client_cpu_seconds arrival firmware lost seed`)
	siteKeys = strings.Fields(`machines up failed up_seconds failures power_cycles loaders_again images_continued images_again
		loader_bytes image_bytes link_seconds core_seconds cpu_seconds store_reads store_bytes replicas seed arrival`)
)

// bootJSON runs "haul bench boot --json".
func bootJSON(t *testing.T, keys []string, args ...string) (code int, got map[string]any) {
	t.Helper()
	code, stdout, stderr := haul(t, append([]string{"bench", "boot", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v in %q (%s)", err, stdout, stderr)
	}
	if found := slices.Sorted(maps.Keys(got)); !slices.Equal(found, slices.Sorted(slices.Values(keys))) {
		t.Errorf("keys %q", found)
	}
	return code, got
}

// webServer serves an image.
func webServer(t *testing.T, image []byte) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "image", time.Time{}, bytes.NewReader(image))
	}))
	t.Cleanup(s.Close)
	return s.URL + "/image"
}

func TestBenchBoot(t *testing.T) {
	_, loader := startServer(t, tftp.NoUploads, map[string]string{"loader": strings.Repeat("loader", 2000)})
	image := webServer(t, bytes.Repeat([]byte("image"), 50_000))
	svg := filepath.Join(t.TempDir(), "up.svg")
	code, got := bootJSON(t, bootKeys, "-n", "20", "--arrival", "linear:20ms", "--loader", loader+"loader", "--image", image,
		"--lost", "50", "--away", "1ms", "--svg", svg)
	if code != 0 || got["up"] != 20.0 || got["loader_size"] != 12_000.0 || got["image_size"] != 250_000.0 || got["power_cycles"] == 0.0 {
		t.Errorf("exit code %d, %v", code, got)
	}
	if b, err := os.ReadFile(svg); err != nil || !bytes.HasPrefix(b, []byte("<svg ")) {
		t.Errorf("the picture: %v, %.20q", err, b)
	}
	code, stdout, _ := haul(t, "bench", "boot", "-n", "2", "--image", image)
	if code != 0 || !strings.Contains(stdout, "2, of which 2 came up") {
		t.Errorf("exit code %d, %s", code, stdout)
	}
}

// The report and the exit code reveal machines that do not come up.
func TestBenchBootFailures(t *testing.T) {
	_, loader := startServer(t, tftp.NoUploads, nil)
	code, stdout, stderr := haul(t, "bench", "boot", "-n", "3", "--loader", loader+"none")
	if code != exitFailed || !strings.Contains(stdout, "3 x loader: peer says file not found") || !strings.Contains(stderr, "some machines did not come up") {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	code, stdout, stderr = haul(t, "bench", "boot", "-n", "3", "--image", closed.URL+"/image")
	if code != exitNoAnswer || stdout != "" || !strings.HasPrefix(stderr, "bench boot: no server answers") {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
}

// A simulation needs no server, and can also draw a picture.
func TestBenchBootSimulate(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "up.svg")
	code, got := bootJSON(t, siteKeys, "--simulate", "-n", "1000", "--arrival", "poisson:10", "--replicas", "3", "--link", "1",
		"--image-size", "10MB", "--replica-lost", "30s", "--replica-back", "60s", "--lost", "1", "--svg", svg)
	if code != 0 || got["up"] != 1000.0 || got["store_reads"] != 8.0 || got["image_bytes"].(float64) < 1000*10e6 {
		t.Errorf("exit code %d, %v", code, got)
	}
	if b, err := os.ReadFile(svg); err != nil || !bytes.HasPrefix(b, []byte("<svg ")) {
		t.Errorf("the picture: %v, %.20q", err, b)
	}
	code, stdout, _ := haul(t, "bench", "boot", "--simulate", "--no-cache")
	if code != 0 || !strings.Contains(stdout, "200 files read") {
		t.Errorf("exit code %d, %s", code, stdout)
	}
	// All machines lose their only replica.
	code, stdout, _ = haul(t, "bench", "boot", "--simulate", "--replica-lost", "10ms", "--tries", "2")
	if code != exitFailed || !strings.Contains(stdout, "100 x a replica was lost") {
		t.Errorf("exit code %d, %s", code, stdout)
	}
}

// badBootValues are values that a flag of "haul bench boot" refuses, with a part of the message.
var badBootValues = []struct{ flag, value, says, with string }{
	{"machines", "0", "1 to 10000", "--image=http://h/i"},
	{"machines", "x", "whole number", ""},
	{"arrival", "linear", "linear:10m", ""},
	{"arrival", "poisson:-1", "poisson:20", ""},
	{"arrival", "all:2", "must be all", ""},
	{"firmware", "bios", "edk2 or ipxe", ""},
	{"lost", "101", "0 to 100 percent", "--image=http://h/i"},
	{"away", "-1s", "0 or more", "--image=http://h/i"},
	{"tries", "0", "above 0", "--image=http://h/i"},
	{"stall", "0s", "above 0", "--image=http://h/i"},
	{"no-resume", "x", "true or false", ""},
	{"seed", "-1", "0 or above", ""},
	{"json", "x", "true or false", ""},
	{"svg", "/dev/null/up.svg", "no such directory", "--simulate"},
	{"loader", "http://h/f", "not of the form", ""},
	{"image", "ftp://h/f", "not of the form", ""},
	{"image", "http://user:sesame@h:x/f", "--image: not a URL", ""},
	{"simulate", "x", "true or false", ""},
	{"replicas", "0", "1 to 10000", "--simulate"},
	{"link", "0", "above 0", "--simulate"},
	{"link", "1e-300", "ten years", "--simulate"},
	{"cores", "-1", "above 0", "--simulate"},
	{"loader-size", "5x", "20MB", "--simulate"},
	{"image-size", "x", "20MB", "--simulate"},
	{"image-size", "9000000000000000000", "64 PiB", "--simulate"},
	{"machine-link", "0", "above 0", "--simulate"},
	{"round-trip", "0s", "above 0", "--simulate"},
	{"store-link", "NaN", "above 0", "--simulate"},
	{"no-cache", "true", "is for --simulate", ""},
	{"replica-lost", "1s", "is for --simulate", ""},
	{"replica-back", "1s", "--replica-lost", "--simulate --replica-lost=2s"},
	{"replica-back", "1s", "--replica-lost", "--simulate"},
	{"withdraw", "soon", "10s", "--simulate"},
	{"withdraw", "-1s", "0 or more", "--simulate"},
}

func TestBenchBootBadValues(t *testing.T) {
	tested := map[string]bool{}
	for _, b := range badBootValues {
		tested[b.flag] = true
		if b.says == "" {
			continue
		}
		args := append([]string{"bench", "boot", "--" + b.flag + "=" + b.value}, strings.Fields(b.with)...)
		code, stdout, msg := haul(t, args...)
		if code != exitUsage || stdout != "" || !strings.Contains(msg, b.says) {
			t.Errorf("%q: exit code %d, %q; want %d, and %q", args, code, msg, exitUsage, b.says)
		}
	}
	newBenchBoot().Flags().VisitAll(func(f *pflag.Flag) {
		if !tested[f.Name] {
			t.Errorf("no bad value of --%s is tested", f.Name)
		}
	})
}
