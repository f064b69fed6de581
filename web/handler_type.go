package web

import "strings"

const octets = "application/octet-stream"

// types are the media types of files, by extension. The package has its own table, because the
// tables of operating systems differ from machine to machine, and some take an initrd for text.
//
// Boot files are octet-stream: UEFI HTTP boot then uses the extension (.efi, .iso, .img), and iPXE
// and GRUB do not care. Extensions that are not listed are octet-stream too. Types are never
// guessed from the content, which a user may have uploaded.
var types = map[string]string{
	".7z":    "application/x-7z-compressed",
	".avif":  "image/avif",
	".bmp":   "image/bmp",
	".bz2":   "application/x-bzip2",
	".cfg":   "text/plain; charset=utf-8",
	".conf":  "text/plain; charset=utf-8",
	".css":   "text/css; charset=utf-8",
	".csv":   "text/csv; charset=utf-8",
	".deb":   "application/vnd.debian.binary-package",
	".gif":   "image/gif",
	".gz":    "application/gzip",
	".htm":   "text/html; charset=utf-8",
	".html":  "text/html; charset=utf-8",
	".ico":   "image/vnd.microsoft.icon",
	".ini":   "text/plain; charset=utf-8",
	".ipxe":  "text/plain; charset=utf-8",
	".jpeg":  "image/jpeg",
	".jpg":   "image/jpeg",
	".js":    "text/javascript; charset=utf-8",
	".json":  "application/json",
	".ks":    "text/plain; charset=utf-8",
	".log":   "text/plain; charset=utf-8",
	".md":    "text/markdown; charset=utf-8",
	".mjs":   "text/javascript; charset=utf-8",
	".mp3":   "audio/mpeg",
	".mp4":   "video/mp4",
	".ogg":   "audio/ogg",
	".pdf":   "application/pdf",
	".png":   "image/png",
	".rpm":   "application/x-rpm",
	".sh":    "text/plain; charset=utf-8",
	".svg":   "image/svg+xml",
	".tar":   "application/x-tar",
	".tgz":   "application/gzip",
	".toml":  "text/plain; charset=utf-8",
	".txt":   "text/plain; charset=utf-8",
	".wasm":  "application/wasm",
	".wav":   "audio/wav",
	".webm":  "video/webm",
	".webp":  "image/webp",
	".woff":  "font/woff",
	".woff2": "font/woff2",
	".xml":   "text/xml; charset=utf-8",
	".xz":    "application/x-xz",
	".yaml":  "application/yaml",
	".yml":   "application/yaml",
	".zip":   "application/zip",
	".zst":   "application/zstd",
}

// typeOf returns the media type of a file.
func (h *Handler) typeOf(name string) string {
	base := name[strings.LastIndexByte(name, '/')+1:]
	dot := strings.LastIndexByte(base, '.')
	if dot < 0 {
		return octets
	}
	ext := strings.ToLower(base[dot:])
	if t, ok := h.Types[ext]; ok {
		return t
	}
	if t, ok := types[ext]; ok {
		return t
	}
	return octets
}
