"""Every section and key that the forks of Darknet know, so that a mistyped one is found."""

ALIASES = {
    "network": "net", "conv": "convolutional", "deconv": "deconvolutional", "conn": "connected", "max": "maxpool",
    "local_avg": "local_avgpool", "avg": "avgpool", "soft": "softmax", "lrn": "normalization", "silence": "empty",
    "blank": "empty",
}  # fmt: skip

_CONVOLUTION = (
    "filters size stride stride_x stride_y pad padding groups batch_normalize activation binary xnor flipped dot "
    "dilation antialiasing share_index cbn bin_output assisted_excitation sway rotate stretch stretch_sway angle "
    "grad_centr reverse coordconv stream wait_stream"
)
_POOLING = "size stride stride_x stride_y padding maxpool_depth out_channels antialiasing maxpool_zero_nonmax"
_BOXES = (
    "classes num anchors max jitter ignore_thresh truth_thresh random map mask resize scale_x_y new_coords iou_loss "
    "iou_normalizer obj_normalizer cls_normalizer delta_normalizer iou_thresh iou_thresh_kind max_delta "
    "label_smooth_eps focal_loss counters_per_class objectness_smooth nms_kind beta_nms track_history_size sim_thresh "
    "dets_for_track dets_for_show track_ciou_norm embedding_layer show_details"
)
_RECURRENT = "output hidden activation batch_normalize shortcut logistic tanh"

KEYS: dict[str, str] = {
    "net": (
        "batch subdivisions time_steps learning_rate momentum decay adam B1 B2 eps height width channels inputs "
        "max_crop min_crop max_ratio min_ratio center clip angle aspect saturation exposure hue policy burn_in power "
        "step scale steps scales gamma max_batches random notruth learning_rate_min sgdr_cycle sgdr_mult seq_scales "
        "track augment_speed sequential_subdivisions try_fix_nan ema_alpha loss_scale dynamic_minibatch "
        "optimized_memory workspace_size_limit_MB flip blur gaussian_noise mixup cutmix mosaic mosaic_bound letter_box "
        "label_smooth_eps resize_step contrastive unsupervised attention adversarial_lr max_chart_loss "
        "weights_reject_freq badlabels_reject_threshold badlabels_rejection_percentage equidistant_point "
        "contrastive_jit_flip contrastive_color init_sequential_subdivisions num_sigmas_reject_badlabels "
        "reset_random_crop"
    ),
    "convolutional": _CONVOLUTION,
    "deconvolutional": "filters size stride pad padding batch_normalize activation",
    "local": "filters size stride pad activation",
    "connected": "output activation batch_normalize",
    "maxpool": _POOLING,
    "local_avgpool": _POOLING,
    "avgpool": "",
    "dropout": "probability dropblock dropblock_size_rel dropblock_size_abs",
    "batchnorm": "",
    "activation": "activation",
    "softmax": "groups temperature tree spatial noloss",
    "logistic": "",
    "l1norm": "axis",
    "l2norm": "axis",
    "cost": "type scale ratio noobj thresh smoothing",
    "crop": "crop_height crop_width flip angle saturation exposure shift noadjust",
    "normalization": "alpha beta kappa size",
    "route": "layers groups group_id stream wait_stream",
    "shortcut": "from activation alpha beta weights_type weights_normalization",
    "upsample": "stride scale",
    "shuffler": "scale",
    "reorg": "stride reverse flatten extra",
    "reorg3d": "stride reverse flatten extra",
    "yolo": _BOXES,
    "Gaussian_yolo": _BOXES + " uc_normalizer",
    "region": (
        "coords classes num anchors log sqrt softmax background max jitter rescore thresh classfix absolute random "
        "coord_scale object_scale noobject_scale mask_scale class_scale bias_match tree map focal_loss"
    ),
    "detection": (
        "coords classes rescore num side softmax sqrt forced max coord_scale object_scale noobject_scale class_scale "
        "jitter random reorg"
    ),
    "iseg": "classes ids",
    "rnn": _RECURRENT,
    "simple_rnn": "output activation",
    "lstm": "output batch_normalize",
    "gru": "output batch_normalize tanh",
    "crnn": (
        _RECURRENT + " output_filters hidden_filters size stride dilation pad padding groups xnor"
    ),
    "conv_lstm": (
        "output size stride dilation pad padding groups batch_normalize activation lstm_activation peephole "
        "bottleneck xnor state_constrain time_normalizer shortcut"
    ),
    "scale_channels": "from scale_wh activation",
    "sam": "from activation",
    "implicit": "mean std filters atoms",
    "empty": "",
}
ANY_LAYER = (
    "truth onlyforward stopbackward dontsave dontload numload dontloadscales learning_rate smooth dont_update "
    "burnin_update train_only_bn clip"
)
UNSUPPORTED = {
    "history": "frames of a video kept from call to call",
    "contrastive": "a loss over tracked objects",
}
ALEXEYAB_SECTIONS = {
    "local_avgpool", "reorg3d", "Gaussian_yolo", "conv_lstm", "scale_channels", "sam", "implicit", "empty",
}  # fmt: skip
PJREDDIE_SECTIONS = {"deconvolutional", "logistic", "l2norm", "iseg"}
ALEXEYAB_ACTIVATIONS = {"swish", "mish", "hard_mish", "relu6", "gelu", "revleaky"}
ALEXEYAB_KEYS = {
    "convolutional": "stride_x stride_y dilation antialiasing share_index",
    "maxpool": "stride_x stride_y maxpool_depth antialiasing",
    "route": "groups group_id",
    "shortcut": "weights_type weights_normalization",
    "yolo": "scale_x_y new_coords iou_loss iou_normalizer iou_thresh nms_kind max_delta",
    "net": "mosaic mixup cutmix letter_box ema_alpha learning_rate_min sgdr_cycle",
}


def canonical(name: str) -> str:
    """A section's full name."""
    return ALIASES.get(name, name)


def known_keys(section: str) -> set[str]:
    """All keys that a section of that (full) name may have."""
    return set(KEYS[section].split()) | (set() if section == "net" else set(ANY_LAYER.split()))
