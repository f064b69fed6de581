package audit

const noFollow = 0 // users need a special right to create symbolic links
